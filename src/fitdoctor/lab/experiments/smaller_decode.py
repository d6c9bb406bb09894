"""Pictures decoded smaller, as near to the size they are shrunk to as the format allows; and shrunk once beforehand."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab import pictures
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BLOCK_SECONDS, Job
from fitdoctor.lab.pictures import Pictures
from fitdoctor.rewrites.graphs import Instead

NAME = "pictures decoded smaller"
SMALLER, BEFOREHAND = "decoded smaller", "shrunk beforehand"
RULE, LATE = "oversized-decode", "late-shrink"
TRAINS = False
OFFERS = True
RATIOS = (8, 4, 2)
"""By how much the JPEG library can shrink while it decodes."""
JPEG, PNG = b"\xff\xd8\xff", b"\x89PNG"
_QUALITY = 95
_COMPARED = 4


def worth(seen: Seen) -> float:
    """Weigh pipelines that decode pictures: it is mostly what takes their time."""
    return pictures.worth(seen, 10.0)


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Decode and shrink alone, in turns: as it is done now, smaller, and from files that were shrunk before."""
    del seen
    found = pictures.found(job.given.get("x"))
    size, formats = found.size(), _formats(found)
    detail = {**found.detail(found.decode.site), "rows": job.batch_rows}
    if formats not in ({JPEG}, {PNG}):
        raise CannotRun("its pictures are not all JPEG or all PNG", do="resize them once, offline, and compare")
    if detail["decoded_pixels"] <= detail["shrunk_pixels"]:
        raise CannotRun("its pictures are decoded no larger than they are used")
    # What is done to pictures before they are shrunk is done to small ones then: where that is most of the work, what a
    # rehearsal gains is late-shrink's.
    as_is = _shrunk_from(found, lambda contents: _decoded(found, contents), size)
    baseline = found.puller([found.shrink.output()], as_is)
    other, how = _smaller(found, size) if formats == {JPEG} else (None, {})
    if other is not None:
        smaller = _shrunk_from(found, other, size)
        changed = found.puller([found.shrink.output()], smaller)
        told = {**detail, **how, "difference": _difference(found, as_is, smaller)}
        job.offers += found.offer(SMALLER, RULE, _decoded_by(found, other), unless=LATE)
        yield Comparison(SMALLER, changed.block, baseline.block, told, block_seconds=BLOCK_SECONDS)
    before = _beforehand(found, size, png=formats == {PNG})
    job.offers += found.offer(BEFOREHAND, f"{RULE}, offline", _decoded_by(found, before), unless=LATE)
    puller = found.puller([found.shrink.output()], _shrunk_from(found, before, size))
    yield Comparison(BEFOREHAND, puller.block, baseline.block, detail, block_seconds=BLOCK_SECONDS)


def _formats(found: Pictures) -> set[bytes]:
    """Return the first bytes of the files, as far as they tell the format."""
    starts = {contents[:8] for (contents,) in found.values([found.contents])}
    return {next((known for known in (JPEG, PNG) if start.startswith(known)), start) for start in starts}


def _shrunk_from(found: Pictures, decode: Callable[[Any], Any], size: tuple[int, int]) -> Instead:
    """Decode and shrink without what the user does in between: that is late-shrink."""

    def shrunk(contents: Any) -> Any:
        picture = decode(contents)
        return pictures.resized(picture, size, found.shrink) if found.resized else pictures.cropped(picture, size)

    return {found.shrink.output(): ((found.contents,), shrunk)}


def _decoded_by(found: Pictures, decode: Callable[[Any], Any]) -> Instead:
    """Decode in another way and do everything else as the user does; a window is what his crop would have left."""
    where = found.decode.output() if found.resized else found.shrink.output()
    return {where: ((found.contents,), decode)}


def _decoded(found: Pictures, contents: Any, ratio: int = 1) -> Any:
    """Decode as the user does, or so many times smaller."""
    tf, attributes = sys.modules["tensorflow"], found.decode.op.node_def.attr
    channels = int(attributes["channels"].i)
    if found.decode.kind == "DecodeJpeg":
        method = attributes["dct_method"].s.decode()
        return tf.io.decode_jpeg(contents, channels, ratio=ratio, dct_method=method)
    if ratio > 1:
        return tf.io.decode_jpeg(contents, channels, ratio=ratio)
    if found.decode.kind == "DecodeImage":
        return tf.io.decode_image(contents, channels, expand_animations=False)
    if found.decode.kind == "DecodePng":
        return tf.io.decode_png(contents, channels)
    raise CannotRun(f"its pictures are decoded by {found.decode.kind}", do="resize them once, offline, and compare")


def _smaller(found: Pictures, size: tuple[int, int]) -> tuple[Callable[[Any], Any] | None, dict[str, Any]]:
    """Return a way to decode fewer pixels that leaves as many as are wanted; None where there is none."""
    if found.resized:
        for ratio in RATIOS:
            if all(-(-height // ratio) >= size[0] and -(-width // ratio) >= size[1] for height, width in found.before):
                return functools.partial(_decoded, found, ratio=ratio), {"ratio": ratio}
        return None, {}
    if all(each == size for each in found.decoded):
        return None, {}
    tf, channels = sys.modules["tensorflow"], int(found.decode.op.node_def.attr["channels"].i)

    def window(contents: Any) -> Any:
        sides = tf.io.extract_jpeg_shape(contents)
        corner = [(sides[0] - size[0]) // 2, (sides[1] - size[1]) // 2]
        return tf.io.decode_and_crop_jpeg(contents, [*corner, *size], channels)

    return window, {"window": True}


def _difference(found: Pictures, one: Instead, other: Instead) -> float:
    """Return by how much the shrunk pictures differ on average, as a fraction of the range of values."""
    import numpy as np

    sides = (found.values([found.shrink.output()], way) for way in (one, other))
    pairs = itertools.islice(zip(*sides, strict=True), _COMPARED)
    return float(np.mean([np.abs(np.subtract(a, b, dtype=np.float64)).mean() for (a,), (b,) in pairs]) / 255)


def _beforehand(found: Pictures, size: tuple[int, int], *, png: bool) -> Callable[[Any], Any]:
    """Return what decodes files that were shrunk before; reading the large ones still counts."""
    tf = sys.modules["tensorflow"]
    small = []
    for (contents,) in found.values([found.contents]):
        picture = _decoded(found, contents)
        shrunk = tf.image.resize(picture, size, "area") if found.resized else pictures.cropped(picture, size)
        shrunk = tf.cast(tf.clip_by_value(tf.round(tf.cast(shrunk, tf.float32)), 0, 255), tf.uint8)
        small.append((tf.io.encode_png(shrunk) if png else tf.io.encode_jpeg(shrunk, quality=_QUALITY)).numpy())
    files = tf.constant(small)
    # Which of the small files it is does not matter; that the large one was read does.
    return lambda contents: _decoded(found, files[tf.strings.length(contents) % len(small)])

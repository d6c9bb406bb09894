"""The user's own pixel work on pictures that were shrunk before it, in turns with pictures as they were decoded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab import pictures
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BLOCK_SECONDS, Job
from fitdoctor.rewrites.graphs import Instead

NAME = "pictures shrunk first"
TRIAL = "shrunk first"
TRAINS = False
OFFERS = True
_NOTHING = frozenset({"Identity", "ExpandDims", "Squeeze", "Reshape", "Pack"})
"""What passes a picture on as it is."""


def worth(seen: Seen) -> float:
    """Weigh pipelines that decode pictures."""
    return pictures.worth(seen, 8.0)


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Run the user's function up to its shrink: as it is, and with the decoded picture shrunk at once."""
    del seen
    found = pictures.found(job.given.get("x"))
    work = [node.kind for node in found.between if node.kind not in _NOTHING]
    if not work:
        raise CannotRun("nothing is done to its pictures before they are shrunk")
    size, decoded, output = found.size(), found.decode.output(), found.shrink.output()
    if all(each == size for each in found.decoded):
        raise CannotRun("its pictures are decoded no larger than they are used")

    def shrunk(picture: Any) -> Any:
        if not found.resized:
            return pictures.cropped(picture, size)
        tf = sys.modules["tensorflow"]
        return tf.cast(pictures.resized(picture, size, found.shrink), picture.dtype)

    copy = found.decode
    instead: Instead = {decoded: (copy.inputs, lambda *inputs: shrunk(pictures.copied(copy, inputs)))}
    if [each.shape for (each,) in found.values([output])] != [
        each.shape for (each,) in found.values([output], instead)
    ]:
        raise CannotRun("its pictures get another size when they are shrunk first", do="try it in the script")
    as_is, first = found.puller([output]), found.puller([output], instead)
    detail = {**found.detail(found.shrink.site), "work": sorted(set(work))[:8], "rows": job.batch_rows}
    job.offers += found.offer(TRIAL, "late-shrink", instead)
    yield Comparison(TRIAL, first.block, as_is.block, detail, block_seconds=BLOCK_SECONDS)

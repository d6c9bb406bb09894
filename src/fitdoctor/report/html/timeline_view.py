"""The timeline as the page takes it: packed numbers to zoom in, and an outline that needs no script."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fitdoctor import units
from fitdoctor.facts.timeline import BETWEEN, KINDS, STEPS, VALIDATION, Timeline
from fitdoctor.report.html.drawing import outline
from fitdoctor.report.html.text import shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_STEPS = 200_000
"""Up to so many steps every single one is in the page; of more, the shortest and the longest of each few."""
MOST_LOOKS = 5_000
MOST_MARKS = 500
MOST_LISTED = 20
WIDTH, HEIGHT = 1000, 120
HEADROOM = 4.0
"""The outline shows steps up to so many times a typical one; what is above ends at the edge."""
LOOKS = {STEPS: "steps", VALIDATION: "validation", BETWEEN: "between"}


def view(timeline: Timeline) -> dict[str, Any]:
    """Return what the section shows without any script."""
    most = _most(timeline)
    return {
        "seconds": units.duration(timeline.seconds),
        "steps": int(timeline.at.size),
        "typical": units.duration(timeline.typical),
        "width": WIDTH,
        "height": HEIGHT,
        "path": outline(timeline.at, timeline.each, timeline.seconds, most, width=WIDTH, height=HEIGHT),
        "most": units.duration(most),
        "bands": [
            (round(WIDTH * each.start / timeline.seconds, 2),
             round(WIDTH * (each.end - each.start) / timeline.seconds, 2), _look(each.kind))
            for each in timeline.bands
        ] if timeline.seconds > 0 else [],
        "kinds": list(_kinds(timeline)),
        "stalls": list(_stalls(timeline)),
        "stalled": int(timeline.stalls.sum()),
        "compiles": [
            (units.duration(each.start), units.duration(each.seconds), each.label)
            for each in sorted(timeline.compiles, key=lambda each: -each.seconds)[:MOST_LISTED]
        ],
        "compiled": len(timeline.compiles),
        "tracks": [each.name for each in timeline.tracks],
        "thinned": timeline.at.size > MOST_STEPS,
        "limit": f"{MOST_STEPS:,}",
    }  # fmt: skip


def _kinds(timeline: Timeline) -> Iterator[tuple[str, str]]:
    """Return what each colour stands for."""
    seen = {each.kind for each in timeline.bands}
    for look in dict.fromkeys(map(_look, KINDS)):
        kinds = [kind for kind in KINDS if kind in seen and _look(kind) == look]
        if kinds:
            yield ", ".join(kinds), look


def _look(kind: str) -> str:
    return LOOKS.get(kind, "aside")


def _most(timeline: Timeline) -> float:
    if not timeline.each.size:
        return 0.0
    return min(float(timeline.each.max()), HEADROOM * timeline.typical) or float(timeline.each.max())


def _stalls(timeline: Timeline) -> Iterator[tuple[str, str]]:
    import numpy as np

    found = np.flatnonzero(timeline.stalls)
    for index in found[np.argsort(-timeline.each[found], kind="stable")][:MOST_LISTED]:
        yield units.duration(float(timeline.at[index])), units.duration(float(timeline.each[index]))


def packed(timeline: Timeline) -> dict[str, Any]:
    """Return what the script draws."""
    at, each, stalls = thinned(timeline.at, timeline.each, timeline.stalls, MOST_STEPS)
    longest = sorted(timeline.compiles, key=lambda mark: -mark.seconds)[:MOST_MARKS]
    return {
        "seconds": timeline.seconds,
        "typical": 1e3 * timeline.typical,
        "gaps": _gaps(at),
        "each": _encoded(1e3 * each, "<f4"),
        "stalls": _encoded(stalls, "<u1"),
        "bands": [[_look(band.kind), band.start, band.end, shown(band.label) or band.kind] for band in timeline.bands],
        "compiles": [[mark.start, mark.seconds, shown(mark.label[:100])] for mark in longest],
        "tracks": [
            {"name": track.name, "unit": track.unit, "limit": track.limit, **_looks(track.at, track.values)}
            for track in timeline.tracks
        ],
    }


def thinned(at: Floats, each: Floats, stalls: Any, most: int) -> tuple[Floats, Floats, Any]:
    """Keep the shortest and the longest step of every few, so that no more than `most` stay."""
    import numpy as np

    if at.size <= most:
        return at, each, stalls
    size = -(-2 * at.size // most)
    count = at.size // size
    table = each[: count * size].reshape(count, size)
    first = np.arange(count) * size
    chosen = np.concatenate(
        [first + table.argmin(axis=1), first + table.argmax(axis=1), np.arange(count * size, at.size)]
    )
    chosen = np.unique(chosen)
    return at[chosen], each[chosen], stalls[chosen]


def _gaps(at: Floats) -> str:
    """Encode times as whole microseconds since the one before: small, and exact however long the run."""
    import numpy as np

    micro = np.round(at * 1e6).astype(np.int64)
    return _encoded(np.clip(np.diff(micro, prepend=0), 0, 2**53), "<f8")


def _encoded(values: Any, kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode("ascii")


def _looks(at: Sequence[float], values: Sequence[float]) -> dict[str, list[float]]:
    every = -(-len(at) // MOST_LOOKS)
    return {
        "at": [round(each, 3) for each in at[::every]],
        "values": [float(f"{each:.6g}") for each in values[::every]],
    }

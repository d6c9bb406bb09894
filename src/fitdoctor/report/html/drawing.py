"""Places on a drawing, in percent of its width: bars, intervals, the outline of many points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fitdoctor.model import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LETTER, _BESIDE = 9.0, 16.0
"""Pixels that a letter of a name in a bar takes at most, and the room beside it."""
_WIDE, _NARROW = 640.0, 320.0
"""Pixels that a bar has at least on a screen, and on a phone."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a bar."""

    name: str
    x: float
    width: float
    look: str
    """Class of its colour."""

    @property
    def name_fits(self) -> float:
        """The width from which on its name has room in it."""
        return 100 * self._name / _WIDE

    @property
    def name_fits_narrow(self) -> float:
        """The same on a phone."""
        return 100 * self._name / _NARROW

    @property
    def _name(self) -> float:
        return _LETTER * len(self.name) + _BESIDE


@dataclass(frozen=True, slots=True)
class Span:
    """An interval on a scale: its two ends and its middle."""

    low: float
    width: float
    mid: float


def segments(values: Mapping[str, float], looks: Mapping[str, str]) -> list[Segment]:
    """Put values beside each other so that they fill the bar."""
    total, x, found = sum(values.values()), 0.0, []
    for name, value in values.items():
        width = 100 * value / total if total > 0 else 0.0
        found.append(Segment(name, round(x, 3), round(width, 3), looks.get(name, "")))
        x += width
    return found


def span(interval: Interval, most: float) -> Span:
    """Place an interval on a scale from nothing to `most`."""
    low, mid, high = (min(100.0, max(0.0, 100 * each / most)) for each in (interval.low, interval.mid, interval.high))
    return Span(round(low, 3), round(max(high - low, 0.3), 3), round(mid, 3))


def scale(highest: Sequence[float], step: float = 0.1) -> float:
    """Return the end of a scale that holds all these, a whole number of steps.

    >>> round(scale([0.23, 0.41]), 6)
    0.5
    """
    most = max([each for each in highest if each < 1e300], default=0.0)
    count = 1
    while count * step < most and count < 1000:
        count += 1
    return count * step


def outline(at: Floats, values: Floats, seconds: float, most: float, *, width: int, height: int) -> str:
    """Return the path of an area between the least and the most in each of `width` columns: any number of points."""
    import numpy as np

    if at.size == 0 or seconds <= 0 or most <= 0:
        return ""
    columns = np.clip((at / seconds * width).astype(np.int64), 0, width - 1)
    starts = np.flatnonzero(np.diff(columns, prepend=-1))
    xs = columns[starts]
    highs = height * (1 - np.clip(np.maximum.reduceat(values, starts) / most, 0, 1))
    lows = height * (1 - np.clip(np.minimum.reduceat(values, starts) / most, 0, 1)) + 1
    pieces = []
    # Columns in which no step began break the outline.
    for part in np.split(np.arange(xs.size), np.flatnonzero(np.diff(xs) > _HOLE) + 1):
        upper = [f"{xs[i]} {highs[i]:.1f}H{xs[i] + 1}" for i in part]
        lower = [f"{xs[i] + 1} {lows[i]:.1f}H{xs[i]}" for i in reversed(part)]
        pieces.append("M" + "L".join([*upper, *lower]) + "Z")
    return "".join(pieces)


_HOLE = 12
"""Columns without a step that are a hole."""

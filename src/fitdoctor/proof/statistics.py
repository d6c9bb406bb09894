"""The speed-up of paired runs, with an interval that holds the truth 19 times in 20.

Logarithms of ratios, run beside run: what slows the machine down for a while slows both of a pair.  Their mean with
Student's interval where they lie as normal values do; where one lies far off (a neighbour took the machine for a run),
it is moved in to the edge of where values may be expected, and the interval pays for that.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from fitdoctor.model import Interval

# Student's t, two-sided 95 %, by degrees of freedom.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
FAR = 3.5
"""So many robust standard deviations from the middle a value is no longer believed as it is."""
_SIGMA_OF_DISTANCE = 1.4826
_FEWEST_FOR_OUTLIERS = 5
_LEAST = 1e-3
"""No two runs are nearer to each other than this but by chance."""


def speedup(before: Sequence[float], after: Sequence[float], *, wider: float = 1.0) -> Interval:
    """Return how many times as fast `after` is, from at least two pairs; the interval may be asked for `wider`."""
    logs = [math.log(one / other) for one, other in zip(before, after, strict=True)]
    if len(logs) < 2:
        raise ValueError("one pair has no interval")
    mean, half = _interval(_moved_in(logs))
    half *= wider
    return Interval(math.exp(mean - half), math.exp(mean), math.exp(mean + half))


def middle(values: Sequence[float]) -> Interval:
    """Return the mean of a few runs with its interval."""
    if len(values) < 2:
        return Interval(values[0], values[0], values[0])
    mean, half = _interval(_moved_in([math.log(each) for each in values]))
    return Interval(math.exp(mean - half), math.exp(mean), math.exp(mean + half))


def half_width(interval: Interval) -> float:
    """Return how far the truth may be from the middle, as a fraction."""
    return math.sqrt(interval.high / interval.low) - 1


def _interval(values: Sequence[float]) -> tuple[float, float]:
    freedom = len(values) - 1
    t = _T[freedom - 1] if freedom <= len(_T) else 1.96 + 2.5 / freedom
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values))


def _moved_in(values: Sequence[float]) -> list[float]:
    """Move values that lie far off in; with few values nobody knows what is far."""
    if len(values) < _FEWEST_FOR_OUTLIERS:
        return list(values)
    centre = statistics.median(values)
    sigma = max(_LEAST, _SIGMA_OF_DISTANCE * statistics.median(abs(each - centre) for each in values))
    return [min(centre + FAR * sigma, max(centre - FAR * sigma, each)) for each in values]

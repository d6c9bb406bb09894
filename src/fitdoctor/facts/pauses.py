"""Pauses between two epochs that are no part of what an epoch takes: some have one, the next has none.

When the loop begins an epoch, it lets go of the iterator of the epoch before, in the thread that trains.  TensorFlow
2.21 then stands still now and then: 0.02 s in one epoch, 2.4 s in the next of the same training, watched or not; not
once in ten epochs with `options.autotune.enabled = False`.  It seems to wait for the thread that tunes the
pipeline, which sleeps twice as long each time while an epoch lasts.  Memory is given back, too.  No fix of what happens
in every epoch takes that away, and how often it comes in another run nothing tells.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

FEWEST_OTHERS = 2
FAR_LONGER = 5.0
LEAST_STALL = 0.05
"""Seconds that can be told from what every epoch takes."""
NEVER_USUAL = 0.5
"""Making an iterator takes some hundredths of a second: so long an epoch stands still even where no other was seen."""


def stalls(values: Sequence[float]) -> list[float]:
    """Return how much longer each of these is than they mostly are at their shortest; 0 where it is not far longer."""
    few = len(values) < 1 + FEWEST_OTHERS
    usual = min([LEAST_STALL, *values]) if few else sorted(values)[len(values) // 4]
    least = NEVER_USUAL if few else max(FAR_LONGER * usual, LEAST_STALL)
    return [each - usual if each > least else 0.0 for each in values]


def projected(found: Sequence[float], epochs: int) -> float:
    """Return the seconds of so many epochs; a stall that was seen once is not taken to come again."""
    came = sum(each > 0 for each in found)
    return sum(found) * (max(1.0, epochs / len(found)) if came > 1 else 1.0)


def seen_once(values: Sequence[float], by_hooks: float = 0.0) -> float:
    """Return what one of these is longer than the others are on average, where it is far longer than every other.

    Unless callbacks took that time, which may save every now and then.
    """
    if not values:
        return 0.0
    *others, longest = sorted(values)
    alone = len(others) >= FEWEST_OTHERS and longest > FAR_LONGER * max(others) and by_hooks < longest / FAR_LONGER
    return longest - statistics.fmean(others) if alone else 0.0

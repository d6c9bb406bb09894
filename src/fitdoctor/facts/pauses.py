"""Pauses between two epochs that are no part of what an epoch takes: some have one, the next has none.

When the loop begins an epoch, it lets go of the iterator of the epoch before, in the thread that trains.  TensorFlow
2.21 then stands still now and then: 0.02 s in one epoch, 2.4 s in the next of the same training, watched or not; not
once with `options.autotune.enabled = False` (see the rule autotune-stall).  It waits for the thread that tunes the
pipeline, which sleeps twice as long each time while an epoch lasts.  Memory is given back, too.  No other fix of what
happens in every epoch takes that away.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fitdoctor.model import Trial

FEWEST_OTHERS = 2
FAR_LONGER = 5.0
LEAST_STALL = 0.05
"""Seconds that can be told from what every epoch takes."""
NEVER_USUAL = 0.5
"""Making an iterator takes some hundredths of a second: so long an epoch stands still even where no other was seen."""


def stalls(values: Sequence[float], lab: Lab | None = None) -> list[float]:
    """Return how much longer each of these is than they mostly are at their shortest; 0 where it is not far longer.

    What they take without the tuner the lab may have seen: more than three in four may stand still.
    """
    few = len(values) < 1 + FEWEST_OTHERS
    usual = min([LEAST_STALL, *values]) if few else sorted(values)[len(values) // 4]
    least = NEVER_USUAL if few else max(FAR_LONGER * usual, LEAST_STALL)
    if lab is not None and lab.as_is.count:
        usual, least = min(usual, lab.usual_s), max(FAR_LONGER * lab.usual_s, LEAST_STALL)
    return [each - usual if each > least else 0.0 for each in values]


def projected(found: Sequence[float], epochs: int, lab: Lab | None = None) -> float:
    """Return the seconds of so many epochs.

    A stall that was seen once is not taken to come again, unless short epochs in the lab stood still too.
    """
    came = sum(each > 0 for each in found)
    if came and lab is not None and lab.as_is.count:
        share = (came + lab.as_is.count) / (len(found) + lab.as_is.of)
        return max(sum(found), sum(found) / came * share * epochs)
    return sum(found) * (max(1.0, epochs / len(found)) if came > 1 else 1.0)


@dataclass(frozen=True, slots=True)
class Counted:
    """How many of so many short epochs of the lab stood still, and for how many seconds in all."""

    count: int
    of: int
    seconds: float

    @classmethod
    def among(cls, between_ns: Sequence[int], usual_s: float) -> Counted:
        """Count those that took far longer to begin than they usually do."""
        least = max(LEAST_STALL, FAR_LONGER * usual_s)
        found = [each / 1e9 - usual_s for each in between_ns if each / 1e9 > least]
        return cls(len(found), len(between_ns), sum(found))


WITHOUT_TUNER = "without AUTOTUNE"
"""The lab's name for the trial of short epochs with and without the tuner."""


@dataclass(frozen=True, slots=True)
class Lab:
    """Short epochs in the lab, with the tuner and without it."""

    as_is: Counted
    without: Counted
    usual_s: float
    """What it takes from an epoch to the next without the tuner."""


def in_the_lab(trials: Iterable[Trial]) -> Lab | None:
    """Return how many short epochs stood still; None where that was not tried."""
    trial = next((each for each in trials if each.name == WITHOUT_TUNER and each.changed_ns), None)
    between = trial.detail.get("between_ns", {}) if trial is not None else {}
    if not between.get("as_is") or not between.get("without"):
        return None
    usual = statistics.median(between["without"]) / 1e9
    return Lab(Counted.among(between["as_is"], usual), Counted.among(between["without"], usual), usual)


def seen_once(values: Sequence[float], by_hooks: float = 0.0) -> float:
    """Return what one of these is longer than the others are on average, where it is far longer than every other.

    Unless callbacks took that time, which may save every now and then.
    """
    if not values:
        return 0.0
    *others, longest = sorted(values)
    alone = len(others) >= FEWEST_OTHERS and longest > FAR_LONGER * max(others) and by_hooks < longest / FAR_LONGER
    return longest - statistics.fmean(others) if alone else 0.0

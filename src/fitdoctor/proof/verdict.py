"""From an interval and the losses to one word."""

from __future__ import annotations

from fitdoctor import units
from fitdoctor.model import Interval, Verdict
from fitdoctor.proof.equivalence import Learning

NOTHING = 0.01
"""A change of less than this is none."""
TIGHT = 0.05
"""An interval that is known to within this and holds no change says that there is no effect worth having."""


def judge(speedup: Interval, half_width: float, learning: Learning, *, may_change: bool) -> tuple[Verdict, str]:
    """Return the verdict and why."""
    told = units.times_exact(speedup)
    if learning.lost or (learning.kind == "different" and not may_change):
        return "REFUTED", f"it does not learn the same: {learning.because}"
    if speedup.low > 1 + NOTHING:
        return "PROVED", f"the training is {told} as fast"
    if speedup.high < 1 / (1 + NOTHING):
        return "REFUTED", f"the training is slower: {told} as fast"
    if half_width <= TIGHT:
        return "NO_EFFECT", f"the training is {told} as fast: no change that these runs could tell from none"
    return (
        "INCONCLUSIVE",
        f"{told} as fast: the runs differ too much from each other to tell; give it a larger --budget",
    )

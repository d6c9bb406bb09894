"""How much longer the first step of an epoch takes than the others: what it waits for before there is a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Gap, Interval, Steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Nanoseconds = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EpochStarts:
    """Seconds that the first step of a later epoch took beyond an ordinary one."""

    pause: Interval
    seen: int
    noise: float
    """What the ordinary steps cannot tell from nothing, as a fraction of all time in steps: all of them vary by more,
    for these very pauses."""


def establish(capture: Capture, training: Training) -> EpochStarts:
    """Compare first steps with the others; the very first one compiles and does not count."""
    import numpy as np

    every = [capture.steps[call.id] for call in training.calls if call.id in capture.steps]
    split = [_split(steps) for steps in every if rows.size(steps) > 0]
    pauses = [float(each) / 1e9 for first, others in split if others.size for each in first - np.median(others)]
    if not pauses:
        raise MissingEvidence(
            Gap(
                "the beginning of an epoch",
                "no second epoch was seen to begin",
                Gap.LONGER,
            )
        )
    ordinary = np.concatenate([others for _, others in split])
    mean = rows.means({"step": ordinary}, np.ones(ordinary.size))["step"]
    total = float(ordinary.sum() + sum(first.sum() for first, _ in split))
    noise = (mean.high - mean.low) / 2 * ordinary.size / total if total > 0 else 0.0
    return EpochStarts(rows.median(pauses).clip(0.0, float("inf")), len(pauses), noise)


def _split(steps: Steps) -> tuple[Nanoseconds, Nanoseconds]:
    """Return what the first steps of later epochs took, and what the others did."""
    import numpy as np

    usable = rows.steady(steps) & ((steps.flags & Steps.CUT) == 0)
    first = np.diff(steps.epoch, prepend=steps.epoch[0]) > 0
    return steps.wall_ns[usable & first], steps.wall_ns[usable & ~first]

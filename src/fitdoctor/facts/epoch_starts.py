"""How much longer the first step of an epoch takes than the others: what it waits for before there is a batch."""

from __future__ import annotations

from dataclasses import dataclass

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Gap, Interval, Steps


@dataclass(frozen=True, slots=True)
class EpochStarts:
    """Seconds that the first step of a later epoch took beyond an ordinary one."""

    pause: Interval
    seen: int


def establish(capture: Capture, training: Training) -> EpochStarts:
    """Compare first steps with the others; the very first one compiles and does not count."""
    pauses = [pause for call in training.calls for pause in _pauses(capture.steps.get(call.id))]
    if not pauses:
        raise MissingEvidence(
            Gap(
                "the beginning of an epoch",
                "no second epoch was seen to begin",
                Gap.LONGER,
            )
        )
    return EpochStarts(rows.median(pauses).clip(0.0, float("inf")), len(pauses))


def _pauses(steps: Steps | None) -> list[float]:
    if steps is None or rows.size(steps) == 0:
        return []
    import numpy as np

    usable = rows.steady(steps) & ((steps.flags & Steps.CUT) == 0)
    first = np.diff(steps.epoch, prepend=steps.epoch[0]) > 0
    ordinary = steps.wall_ns[usable & ~first]
    if ordinary.size == 0:
        return []
    return [float(each) / 1e9 for each in steps.wall_ns[usable & first] - np.median(ordinary)]

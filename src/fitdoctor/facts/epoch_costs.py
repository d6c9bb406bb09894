"""What an epoch costs beside its steps, how much that varies, and what it would be worth to pay it less often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import pauses, rows
from fitdoctor.facts.epoch_looks import later_epochs
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Change, Gap, Interval

PATIENCE = 3
"""So many looks at a training in a row must be without a gain before anybody stops it."""
_NEVER_STOP = frozenset(
    {"BackupAndRestore", "CSVLogger", "History", "LearningRateScheduler", "ModelCheckpoint", "ProgbarLogger",
     "ReduceLROnPlateau", "RemoteMonitor", "SwapEMAWeights", "TensorBoard", "TerminateOnNaN"}
)  # fmt: skip
"""Keras's callbacks that do not end a training because of what they see at the end of an epoch."""
_EVERY_EPOCH = ("validation", "epoch callbacks", "saving", "between epochs")


@dataclass(frozen=True, slots=True)
class EpochCosts:
    """Seconds per epoch, averaged over the epochs that were seen to their end."""

    seen: int
    validation: Interval
    between: Interval
    """Neither steps, nor validation, nor callbacks, nor saving."""
    validated: int
    """How many of them validated."""
    stalls: tuple[float, ...] = ()
    """How long each of them stood still at its beginning, where the data of the one before is let go (see `pauses`)."""


def establish(capture: Capture, training: Training) -> EpochCosts:
    """Average the complete epochs of the leading `fit`."""
    if training.kind != "fit":
        raise MissingEvidence(Gap("epochs", f"{training.kind} has no epochs of Keras's", Gap.DOES_NOT_APPLY))
    seen = [(call, capture.steps[call.id]) for call in training.calls if call.id in capture.steps]
    looked = later_epochs(capture, seen)
    if not looked:
        raise MissingEvidence(Gap("the end of an epoch", "no epoch was seen to its end", Gap.LONGER))
    validation = [look.validation for look in looked]
    lab = pauses.in_the_lab(each for each in capture.trials if each.call in training.call_ids)
    freeing = pauses.stalls([look.freeing for look in looked], lab)
    outside = [look.outside - stall for look, stall in zip(looked, freeing, strict=True)]
    # Callbacks and saving are told from the rest by their hooks, which have no spread of their own here.
    between = training.elsewhere.get("between epochs", 0.0) / max(1, training.epochs)
    spread = _mean(outside)
    return EpochCosts(
        seen=len(looked),
        validation=_mean(validation),
        between=Interval(
            max(0.0, between - (spread.mid - spread.low)), between, between + max(0.0, spread.high - spread.mid)
        ),
        validated=sum(each > 0 for each in validation),
        stalls=tuple(freeing),
    )


def _mean(values: Sequence[float]) -> Interval:
    """Return the mean with its range; what was seen once may have been slow because it was the first: half of it."""
    if len(values) == 1:
        return Interval(0.5 * values[0], values[0], 1.5 * values[0])
    return rows.means({"each": values}, [1.0] * len(values))["each"]


def rest_of_epoch(model: StepModel, epochs: int, part: str) -> float:
    """Return the seconds of an epoch, its steps and all that comes with it, without one part."""
    beside = sum(model.elsewhere.get(name, 0.0) for name in _EVERY_EPOCH if name != part)
    return (model.planned_steps * model.step.mid + beside) / max(1, epochs)


@dataclass(frozen=True, slots=True)
class Rarer:
    """Something that is paid every few epochs, paid every `every` epochs instead."""

    every: int
    own: int
    change: Change
    late_s: float
    """What it costs at worst: the best epoch, or the end, is noticed so much later."""


def may_stop(training: Training) -> bool:
    """Tell whether a callback of a training may end it before its last epoch."""
    return bool(set(training.info.get("callbacks") or ()) - _NEVER_STOP)


def rarer(
    part: str,
    each: Interval,
    rest_s: float,
    epochs: int,
    own: int = 1,
    *,
    part_s: float | None = None,
    stops: bool = True,
) -> Rarer | None:
    """Return how often a part of every epoch should be paid so that the training is shorter even at worst.

    `each` is what it takes per epoch on average (of `part_s`, if the part holds more than that), `rest_s` what the rest
    of an epoch takes, `own` how often it is paid now.  Paid every k epochs, the training is judged every k epochs: a
    stop that waits for a few judgements comes at worst as many times k - own epochs late.  None where no k is worth it.
    Where no callback `stops` it, only a person could: then that is the worst, and nothing of it is expected.
    """
    late_s = PATIENCE * rest_s
    best = math.sqrt(own * each.low * epochs / late_s) if late_s > 0 else float(epochs)
    candidates = {min(epochs, max(own + 1, k)) for k in (math.floor(best), math.ceil(best))} if epochs > own else set()
    gains = {k: each.low * epochs * (1 - own / k) - (k - own) * late_s for k in candidates}
    every = max(gains, key=lambda k: gains[k], default=own)
    if gains.get(every, 0.0) <= 0 or each.mid <= 0:
        return None
    late = (every - own) * late_s
    gone = each.scale((1 - own / every) / (part_s or each.mid)).clip(0.0, 1.0)
    remaining = Interval(1 - gone.high, 1 - gone.mid, 1 - gone.low)
    return Rarer(every, own, Change(part, remaining, once=Interval(0.0, late / 2 if stops else 0.0, late)), late)

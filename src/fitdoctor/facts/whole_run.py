"""The run as a person experiences it: every second of the whole training, as the user would run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fitdoctor.facts.callback_costs import CallbackCosts
from fitdoctor.facts.epoch_costs import EpochCosts
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import ONE_OFF, Training
from fitdoctor.model import PHASES, Interval

STEPS = "steady steps"
_PHASE_OF = {"epoch callbacks": "callbacks"}
_ONCE = {
    "imports": "seen once: modules imported, whoever imports them",
    "set-up": "seen once: the script's own code before the training, its data among it",
    "compiling": "seen once: tracing, compiling and the first steps of each train function",
}
_SUMMED = {
    "pause": "seen between some epochs and not between others: old data is freed, memory is given back",
    "first epoch": "seen once: what the first epoch took outside of its steps beyond what the others did",
    "calls": "what each call takes beyond its steps, times the calls",
    "between calls": "seen: the script's own code between the calls",
    "other calls": "the other trainings of the script, projected to their ends",
    "short calls": "predict and evaluate, called again and again in the loop",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """One thing that the time of the whole training goes to."""

    name: str
    """One of the phases of a run, or what the calls of a script take beside them."""
    seconds: Interval
    how: str


@dataclass(frozen=True, slots=True)
class WholeRun:
    """All stretches in the order in which a run comes to them; their middles sum to what savings are shares of."""

    stretches: tuple[Stretch, ...]

    @property
    def seconds(self) -> Interval:
        """The whole training."""
        ends = zip(*((each.seconds.low, each.seconds.mid, each.seconds.high) for each in self.stretches), strict=True)
        return Interval(*map(sum, ends)) if self.stretches else Interval.exact(0.0)

    def share(self, stretch: Stretch) -> Interval:
        """Return a stretch as a fraction of the whole."""
        whole = self.seconds.mid
        return stretch.seconds.scale(1 / whole).clip(0.0, 1.0) if whole > 0 else Interval.exact(0.0)


def establish(
    training: Training,
    model: StepModel,
    epochs: EpochCosts | None,
    callbacks: CallbackCosts | None,
) -> WholeRun:
    """Put the steps and all that is beside them in the order of a run."""
    steps = Stretch(
        STEPS,
        model.step.scale(model.planned_steps),
        f"{model.planned_steps:,.0f} steps, each as long as those that were seen",
    )
    beside = [
        _stretch(name, seconds, training, epochs, callbacks) for name, seconds in model.elsewhere.items() if seconds > 0
    ]
    found = [each for each in (steps, *beside) if each.seconds.mid > 0]
    return WholeRun(tuple(sorted(found, key=lambda each: _place(each.name))))


def _place(name: str) -> int:
    return PHASES.index(name) if name in PHASES else len(PHASES)


def _stretch(
    name: str, seconds: float, training: Training, epochs: EpochCosts | None, callbacks: CallbackCosts | None
) -> Stretch:
    if name in ONE_OFF:
        return Stretch(name, Interval.exact(seconds), _ONCE[name])
    if name in ("validation", "between epochs") and epochs is not None:
        spread = epochs.validation if name == "validation" else epochs.between
        how = f"the mean of {epochs.seen} epochs that were seen to their end, times {training.epochs}"
        return Stretch(name, _as_wide(seconds, [spread]), how)
    if name == "epoch callbacks" and callbacks is not None:
        hooks = [each.training_s for each in callbacks.costs if each.rhythm == "epoch"]
        return Stretch(_PHASE_OF[name], _as_wide(seconds, hooks), "callbacks at the ends of epochs, hook by hook")
    if name == "saving" and callbacks is not None:
        hooks = [each.saving_s for each in callbacks.costs]
        return Stretch(name, _as_wide(seconds, hooks), "models and weights saved inside callbacks")
    return Stretch(_PHASE_OF.get(name, name), Interval.exact(seconds), _SUMMED.get(name, "seen, and projected"))


def _as_wide(seconds: float, like: Sequence[Interval]) -> Interval:
    """Give a number the relative width that was measured for it."""
    low, mid, high = (sum(getattr(each, end) for each in like) for end in ("low", "mid", "high"))
    if mid <= 0:
        return Interval.exact(seconds)
    return Interval(seconds * min(1.0, low / mid), seconds, seconds * max(1.0, high / mid))

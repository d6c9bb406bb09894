"""What each callback costs the training thread."""

from __future__ import annotations

from dataclasses import dataclass, field

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training, merged
from fitdoctor.facts.trials import CALLBACKS_OFF, Trials, callback_alone
from fitdoctor.model import CallbackTime, Capture, Change, Interval, Site


@dataclass(frozen=True, slots=True)
class HookCost:
    """One callback at one rhythm: all its hooks that run every step, or all that run every epoch."""

    name: str
    rhythm: str
    """step or epoch"""
    hooks: tuple[str, ...]
    site: Site | None
    builtin: bool
    count: int
    each: Interval
    """Seconds per hook call."""
    training_s: Interval
    """Projected seconds of the whole training."""
    saving_each: Interval = field(default_factory=lambda: Interval.exact(0.0))
    """Seconds per hook call that went into saving; not part of `each`."""
    saving_s: Interval = field(default_factory=lambda: Interval.exact(0.0))
    """Projected seconds of the whole training that go into saving; not part of `training_s`."""


@dataclass(frozen=True, slots=True)
class CallbackCosts:
    """All callbacks of the leading training, the costliest first; those beside the step are left out."""

    costs: tuple[HookCost, ...]
    beside: tuple[str, ...]
    """Names of callbacks that ran on Keras's own thread, not on the training thread."""

    def total(self, rhythm: str) -> float:
        """Projected seconds of all callbacks at one rhythm."""
        return sum(each.training_s.mid for each in self.costs if each.rhythm == rhythm)

    def without(self, hook: HookCost, model: StepModel) -> Change:
        """Return what becomes of the callbacks' time if one of them did nothing at this rhythm."""
        part = "callbacks" if hook.rhythm == "step" else "epoch callbacks"
        each = model.parts.get(part)
        seen = model.planned_steps * each.mid if each is not None else model.elsewhere.get(part, 0.0)
        # Of the callbacks' time, only what the step model shows as theirs was not spent beside the device's work.
        taken = (
            hook.training_s.scale(1 / max(seen, self.total(hook.rhythm))).clip(0.0, 1.0)
            if seen > 0
            else Interval.exact(0.0)
        )
        return Change(part, Interval(1 - taken.high, 1 - taken.mid, 1 - taken.low))


def freed(hook: HookCost, trials: Trials, model: StepModel, gone: float = 1.0) -> tuple[Change, ...]:
    """Return what else of the step goes with a share `gone` of what a callback does after every step.

    It leaves the caches cold and keeps the next step from being launched: without the callbacks steps were measured to
    be shorter by more than the callbacks' own time.  What is beyond that is taken off the rest of the step; at worst it
    is none of it.
    """
    own = (hook.training_s.mid + hook.saving_s.mid) / max(1.0, model.planned_steps)
    rest = model.step.mid - model.parts["callbacks"].mid
    less = _less(hook.name, trials) if hook.rhythm == "step" else None
    if less is None or rest <= 0:
        return ()
    before = model.step.mid + hook.saving_s.mid / max(1.0, model.planned_steps)
    beyond = [max(0.0, before * share - own) * gone / rest for share in (less.low, less.mid, less.high)]
    if beyond[1] <= 0:
        return ()
    return (Change("step", Interval(1 - beyond[2], 1 - beyond[1], 1.0).clip(0.0, 1.0)),)


def _less(name: str, trials: Trials) -> Interval | None:
    """Return by which share of its time a step was shorter without this callback; None: it was not tried."""
    try:
        without, trial = trials.ratio(CALLBACKS_OFF)
        names = list(trial.detail.get("callbacks") or ())
        if names.count(name) != 1:
            return None
        part = 1.0
        if len(names) > 1:
            # Each was run alone: of what all of them take together, as large a part as it has of their sum.
            alone = {each: trials.ratio(callback_alone(each), experiment=CALLBACKS_OFF)[0].mid - 1 for each in names}
            part = max(0.0, alone[name]) / max(1e-9, sum(max(0.0, each) for each in alone.values()))
    except MissingEvidence:
        return None
    return Interval(*(part * (1 - each) for each in (without.high, without.mid, without.low))).clip(0.0, 1.0)


def establish(capture: Capture, training: Training) -> CallbackCosts:
    """Add up the hooks per callback and project them to the whole training."""
    mine = [each for each in capture.callbacks if each.call in training.call_ids]
    together: dict[tuple[str, str], list[CallbackTime]] = {}
    for hook in merged(each for each in mine if not each.threaded and each.count):
        rhythm = _rhythm(hook.hook)
        if rhythm is not None:
            together.setdefault((hook.name, rhythm), []).append(hook)
    costs = [_cost(name, rhythm, hooks, training) for (name, rhythm), hooks in together.items()]
    return CallbackCosts(
        costs=tuple(sorted(costs, key=lambda each: -each.training_s.mid)),
        beside=tuple(sorted({each.name for each in mine if each.threaded})),
    )


def _rhythm(hook: str) -> str | None:
    if hook.startswith("on_epoch"):
        return "epoch"
    return "step" if hook.startswith(("on_train_batch", "on_batch")) else None


def _cost(name: str, rhythm: str, hooks: list[CallbackTime], training: Training) -> HookCost:
    seen = max(1, training.steps + training.warmup_steps)
    each = [_each(hook) for hook in hooks]
    saving = [_saving(hook) for hook in hooks]
    # With steps_per_execution a batch hook runs less often than the steps: take the rhythm that was seen.
    times = [
        training.planned_steps * hook.count / seen if rhythm == "step" else float(training.epochs) for hook in hooks
    ]
    return HookCost(
        name=name,
        rhythm=rhythm,
        hooks=tuple(sorted(hook.hook for hook in hooks)),
        site=next((hook.site for hook in hooks if hook.site is not None), None),
        builtin=all(hook.builtin for hook in hooks),
        count=max(hook.count for hook in hooks),
        each=_sum(each),
        saving_each=_sum(saving),
        saving_s=_sum([one.scale(factor) for one, factor in zip(saving, times, strict=True)]),
        training_s=_sum([one.scale(factor) for one, factor in zip(each, times, strict=True)]),
    )


def _sum(intervals: list[Interval]) -> Interval:
    return Interval(
        sum(each.low for each in intervals),
        sum(each.mid for each in intervals),
        sum(each.high for each in intervals),
    )


def _saving(hook: CallbackTime) -> Interval:
    """Seconds per call of a hook that went into saving.  How much it varies was not kept: a fifth either way."""
    mean = max(0, hook.total_ns - hook.self_ns) / hook.count / 1e9
    return Interval(0.8 * mean, mean, 1.2 * mean)


def _each(hook: CallbackTime) -> Interval:
    """Seconds per call of a hook: the mean, and as its variation the mean without the longest call.

    A hook seen once may have been slow because it was the first: half to one and a half times.
    """
    mean = hook.self_ns / hook.count / 1e9
    if hook.count == 1:
        return Interval(0.5 * mean, mean, 1.5 * mean)
    without = max(0.0, hook.self_ns - hook.max_ns) / (hook.count - 1) / 1e9
    low = min(mean, without)
    return Interval(low, mean, 2 * mean - low)

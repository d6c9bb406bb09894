"""What the lab's rewrites of the tf.data pipeline would give the training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.step_model import StepModel, input_change
from fitdoctor.facts.trials import Rehearsed, Trials
from fitdoctor.model import Change, Interval, Site, Trial

GOOD_ENOUGH = 0.95
"""Of several settings the first that gives so much of the best is named."""


SHOWN = 0.95
"""A rehearsal that is surely faster than this shows something even where the step was not seen to wait."""
CLEARLY = 0.8
SERIAL, STARVED = "serial-map", "starved-reads"
AHEAD = "rewrite: missing-prefetch [the next batch is prepared meanwhile]"
NEARLY = 0.9
"""A smaller change that gives this share of what a larger one gives is the better answer."""


@dataclass(frozen=True, slots=True)
class Gain:
    """One rewrite: how long a batch takes with it, and what the training gains."""

    ratio: Interval
    saving: Interval
    change: Change
    trial: Trial

    @property
    def site(self) -> Site | None:
        """The line that built the stage."""
        found = self.trial.detail.get("site")
        return Site(str(found[0]), int(found[1])) if found else None

    @property
    def code(self) -> str:
        """What the user would write."""
        return str(self.trial.detail.get("code", ""))

    @property
    def same(self) -> bool:
        """Whether the model sees the same data."""
        return self.trial.detail.get("safety") == "same"


def gains(trials: Trials, model: StepModel, rule: str) -> list[Gain]:
    """Return what each rewrite for a rule gives, as far as it makes batches come faster."""
    found = []
    for ratio, trial in trials.rewritten(rule):
        if ratio.high < 1:
            change = believed(trials, trial.name, input_change(ratio.clip(0.0, 1.0)), model)
            found.append(Gain(ratio, model.with_change(change).saving(), change, trial))
    return found


def felt(trials: Trials, model: StepModel, trial: str) -> bool:
    """Tell whether the step is longer for its input: it waits, or a rehearsal showed that both share the cores.

    An asynchronous device that is fed in time may still be slow because making batches takes the cores from it; `trial`
    is how the names of the trials begin whose rehearsals would tell.
    """
    if model.share("input").high > model.noise:
        return True
    rehearsals = (trials.rehearsed(each.name) for each in trials.trials if each.name.startswith(trial))
    return any(each is not None and each.ratio.high < SHOWN for each in rehearsals)


def believed(trials: Trials, name: str, change: Change, model: StepModel, epochs: int = 0) -> Change:
    """Return the change as the rehearsal of that trial showed it, or as it was, where there was none.

    `epochs`: of so many the first stays as it was.
    """
    seen = trials.rehearsed(name)
    if seen is None:
        return change
    seen = seen.beside(_as_is(model, whole=seen.whole))
    return _begun(seen, (seen.later(epochs) if epochs else seen).change(change), model)


def _as_is(model: StepModel, *, whole: bool) -> float:
    """Return seconds of a step of the run as rehearsals take them: without callbacks, with what is between epochs."""
    between = model.elsewhere.get("between epochs", 0.0) / max(1.0, model.planned_steps) if whole else 0.0
    return model.step.mid - model.parts["callbacks"].mid + between


def _begun(seen: Rehearsed, change: Change, model: StepModel) -> Change:
    """Return a change of which only steps were rehearsed with what its data takes longer to begin, epoch after epoch.

    Workers and parallel calls still have to make their first batches, which the others do not wait for.
    """
    if seen.whole or seen.begins_s is None:
        return change
    now = model.elsewhere.get("between epochs", 0.0) + model.epochs * model.begins_s * change.remaining.mid
    more = max(0.0, model.epochs * seen.begins_s - now)
    return longer(change, Interval(0.0, more, 2 * more), model)


def longer(change: Change, more: Interval, model: StepModel) -> Change:
    """Return a rehearsed change of the step after which so many seconds of all epochs come on top of the steps."""
    steps = model.planned_steps * (model.step.mid - model.parts["callbacks"].mid)
    if steps <= 0:
        return change
    ends = zip(change.remaining.ends, more.ends, strict=True)
    return replace(change, remaining=Interval(*(stays + each / steps for stays, each in ends)).clip(0.0, 1.0))


def only_in_turns(trials: Trials, found: Gain) -> bool:
    """Tell whether preparing the next batch meanwhile gave about as much as a rewrite, where both were rehearsed."""
    ahead, own = trials.rehearsed(AHEAD), trials.rehearsed(found.trial.name)
    return ahead is not None and own is not None and 1 - ahead.ratio.mid >= NEARLY * (1 - own.ratio.mid) > 0


def best(found: Sequence[Gain]) -> Gain:
    """Return the first that is nearly as good as the best; where data stays the same before where it may not."""
    most = max(each.saving.mid for each in found)
    good = [each for each in found if good_enough(each.saving.mid, most)]
    return next((each for each in good if each.same), good[0])


def good_enough(saving: float, most: float) -> bool:
    """Tell whether it saves nearly as much as the best, and leaves hardly more: of nine tenths a bit less is much."""
    return saving >= GOOD_ENOUGH * most and 1 - most >= GOOD_ENOUGH * (1 - saving)


def waits(trials: Trials, model: StepModel) -> bool:
    """Tell whether a map waits rather than computes.

    More calls at a time than there are cores help only what waits: they must be clearly faster than a few calls, where
    those were tried.
    """
    few, many = (_fastest(trials, model, rule) for rule in (SERIAL, STARVED))
    return many is not None and (few is None or many < CLEARLY * few)


def _fastest(trials: Trials, model: StepModel, rule: str) -> float | None:
    try:
        return min((each.ratio.mid for each in gains(trials, model, rule)), default=None)
    except MissingEvidence:
        return None

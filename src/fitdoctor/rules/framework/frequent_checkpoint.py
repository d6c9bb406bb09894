"""Saving takes a visible share of the run.

## What is wrong

`ModelCheckpoint` and `BackupAndRestore` write the whole model, optimizer included, while the training waits.  Every
epoch is often, when epochs are short; every few batches is very often.

## How it is established

Each save was timed on the training thread, inside the callback that made it, and projected to the whole training.

## What to do

Save less often (`save_freq`, or an epoch-level checkpoint in place of a batch-level one), only the best
(`save_best_only=True`), or only the weights (`save_weights_only=True`).  The learning is the same.

## When it is not worth it

When a lost hour costs more than the saving: checkpoints are insurance.

## Example

    keras.callbacks.ModelCheckpoint("last.keras", save_freq=20)        # slow: every 20 batches
    keras.callbacks.ModelCheckpoint("last.keras", save_freq="epoch")   # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.facts import spots
from fitdoctor.facts.callback_costs import CallbackCosts, HookCost, freed
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

_OFTEN = 1000
"""Batches; between checkpoints that are further apart, hardly any training waits for them."""
_SAVERS = ("ModelCheckpoint", "BackupAndRestore")
RARER = 10
"""What is judged is saving this many times less often: nobody wants no checkpoint at all."""


SUSPICION = "may make the training wait for a checkpoint every few batches"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find checkpoints every so many batches."""
    for call in _savers(source):
        often = call.file.constant(call.keyword("save_freq"))
        if isinstance(often, int) and often <= _OFTEN and not _is_dropped(call):
            yield call.site


def _is_dropped(call: FoundCall) -> bool:
    """Tell whether a checkpoint is made and given to nobody, as in a test of its arguments."""
    return isinstance(call.file.parents.get(call.node), ast.Expr)


def place(source: SourceTree) -> Iterator[Site]:
    """Find the checkpoints."""
    return (call.site for call in _savers(source))


def _savers(source: SourceTree) -> Iterator[FoundCall]:
    return source.calls_of(*_SAVERS)


def measure(training: Training, callbacks: CallbackCosts, model: StepModel, trials: Trials | None) -> Verdict:
    """Project what saving takes to the whole training."""
    if training.kind != "fit":
        return Absent(f"{training.kind} runs no callbacks")
    savers = [each for each in callbacks.costs if each.saving_s.mid > 0]
    if not savers:
        return Clear("no callback was seen to save anything on the training thread")
    return [_cost(each, trials, model) for each in savers]


def _cost(hook: HookCost, trials: Trials | None, model: StepModel) -> Cost:
    whole = max(model.elsewhere.get("saving", 0.0), 1e-9)
    rarer = 1 - 1 / RARER
    gone = hook.saving_s.scale(rarer / whole).clip(0.0, 1.0)
    also = freed(hook, trials, model, rarer) if trials is not None else ()
    change = Change("saving", Interval(1 - gone.high, 1 - gone.mid, 1 - gone.low), also=also)
    each = units.duration(hook.saving_each.mid)
    return Cost(
        saving=model.with_change(change).saving(),
        because=f"{hook.name} spends {each} per {hook.rhythm} on saving while the training waits",
        site=hook.site,
        change=change,
        evidence={
            "callback": hook.name,
            "rhythm": hook.rhythm,
            "calls_seen": hook.count,
            "training_s": hook.saving_s.mid,
            "rarer": RARER,
        },
    )


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    title = f"let {cost.evidence.get('callback', 'the checkpoint')} save {RARER} times less often"
    call = spots.the_only(_savers(source)) if source is not None else None
    often = call.keyword("save_freq") if call is not None else None
    if call is None or not isinstance(often, ast.Constant) or type(often.value) is not int:
        return Fix(title, "same")
    # What is best among fewer is another one.
    kept = call.keyword("save_best_only")
    best = kept is not None and not (isinstance(kept, ast.Constant) and not kept.value)
    edit = Arguments(spots.spot(call), (("save_freq", str(often.value * RARER)),))
    return Fix(title, "may change" if best else "same", edits=(edit,))

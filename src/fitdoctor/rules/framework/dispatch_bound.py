"""Launching a step takes longer than the step.

## What is wrong

Between two executions of the compiled step Python runs its loop, hands over the batch, reads results and launches the
next one.  On a small model or a small batch that takes longer than the computing, whatever the hardware.

## How it is established

The lab trained the very model on one batch with 1, 8 and 32 steps per execution, in turns with the job as it is.
What that saves of a step is the finding; no experiment, no finding.

## What to do

Pass `steps_per_execution=8` (or what was measured) to `compile`.  The model sees the same batches and makes the same
updates; callbacks on batches and the progress bar run once per execution instead of once per step.

## When it is not worth it

When a step computes for many milliseconds; when a callback must run after every single step; when the step waits for
input, since a shorter step only waits longer.

## Example

    model.compile(optimizer, loss)                              # slow
    model.compile(optimizer, loss, steps_per_execution=32)      # fast
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.rewrites import believed
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Interval, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "steps_per_execution"
IDLE = "idle step"
IDLE_EXPERIMENT = "a step that does nothing"
FELT = 0.02
"""A loop around the step that takes less than this share of it is nobody's cause."""
TRIED = (8, 32)


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: how long a launch takes beside its step no source tells."""
    del source
    return iter(())


def place(source: SourceTree) -> Iterator[Site]:
    """Find the calls of `compile`, where it would be said."""
    return (call.site for call in source.compile_calls())


def _idle(trials: Trials) -> Interval | None:
    """Return what the loop around the work takes of a step, where it was measured.

    Long steps are not tried several at a time, but beside one that does nothing: where there was no time for that, it
    is that which is missing.
    """
    try:
        return trials.ratio(IDLE, experiment=IDLE_EXPERIMENT)[0]
    except MissingEvidence as missing:
        tried = any(each.what == f"experiment: {EXPERIMENT}" for each in trials.gaps)
        if tried or not missing.gap.what.startswith("experiment: "):
            return None
        raise


def measure(training: Training, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment, and the fewest steps per execution that give nearly all of it."""
    if training.kind != "fit":
        return Absent(f"{training.kind} has no steps_per_execution")
    if training.backend == "torch":
        return Absent("the torch backend runs one step per execution")
    if training.info.get("run_eagerly"):
        return Clear("the step is not even compiled: eager-step judges that")
    if model.input_bound:
        return INPUT_BOUND
    own = int(training.info.get("steps_per_execution") or 1)
    found, tried = {}, {}
    missing: MissingEvidence | None = None
    for count in TRIED:
        try:
            found[count], tried[count] = trials.ratio(f"steps_per_execution={count}", experiment=EXPERIMENT)
        except MissingEvidence as error:
            missing = error
    if not found:
        if own >= max(TRIED):
            return Clear(f"{own} steps share an execution already")
        idle = _idle(trials)
        if idle is not None and idle.high <= max(model.noise, FELT):
            return Clear(
                f"the loop around it takes {units.percent_range(idle)} of a step of {units.duration(model.step.mid)}: "
                "too little to be shared among several steps"
            )
        raise missing or AssertionError
    best = min(found.values(), key=lambda ratio: ratio.mid)
    good = [(n, r) for n, r in found.items() if r.mid <= 1.05 * best.mid]
    # Of those that are as good as each other, the one that was tried on the data too.
    count, ratio = next((each for each in good if trials.rehearsed(tried[each[0]].name)), good[0])
    if ratio.mid >= 1 or count <= own:
        return Clear(f"with {count} steps per execution a step took {units.percent(ratio.mid)} of its time: no gain")
    change = model.change_by_compiling(ratio, tried[count].detail.get("compile_s"))
    change = believed(trials, tried[count].name, change, model)
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"launching costs more than it should: with {count} steps per execution instead of {own} a step took "
                f"{units.percent_range(ratio)} of its time"
            ),
            change=change,
            evidence={
                "steps_per_execution": count,
                "own": own,
                "ratios": {str(n): {"low": r.low, "mid": r.mid, "high": r.high} for n, r in found.items()},
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    count = cost.evidence.get("steps_per_execution", 8)
    call = spots.the_compile(source)
    give = (("steps_per_execution", str(count)),)
    edits = (Arguments(spots.spot(call), give, order=spots.COMPILE),) if call is not None else ()
    return Fix(f"pass steps_per_execution={count} to compile", "same", edits=edits)

"""The replicas of a distribution strategy run op by op, one after the other.

## What is wrong

`strategy.run` called from plain Python starts a thread per replica and lets them take turns: every op of every replica
goes through Python, and no two devices compute at the same time.  With more devices the step gets longer, not shorter.

## How it is established

The loop was seen to call `strategy.run` outside of any compiled function, and the lab ran the very step, compiled and
as it is, in turns, on the arguments it had.  Variables were put back after every block.

## What to do

Put the call of `strategy.run` into a function decorated with `@tf.function` and call that from the loop.  The numbers
stay the same but for the order of floating-point sums.

## When it is not worth it

When the compiled step was not measured to be faster; while debugging.

## Example

    def distributed_step(batch):            # slow
        return strategy.run(train_step, args=(batch,))

    @tf.function                            # fast
    def distributed_step(batch):
        return strategy.run(train_step, args=(batch,))
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Decorate
from fitdoctor.facts import spots
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Site
from fitdoctor.rules import Absent, Clear, Verdict

TRIAL = "compiled"


SUSPICION = "may run the replicas op by op, one after the other: nothing compiles the function around it"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find calls of a strategy's `run` that are made again and again, in functions that nothing compiles."""
    for file in source.files:
        for call in file.calls_of("run"):
            given = call.argument(0, "fn")
            compiled = isinstance(given, ast.Name) and given.id in file.compiled_functions
            if not _runs_replicas(file, call) or file.is_compiled(call.node) or compiled:
                continue
            if not source.ran and _is_handed_in(file, call, given):
                continue
            if file.repeats(call.node):
                yield call.site


def _is_handed_in(file: SourceFile, call: FoundCall, given: ast.expr | None) -> bool:
    """Tell whether what is run is a parameter of the function around it: it may well be compiled."""
    around = file.scope(call.node)
    names = ast.walk(around.args) if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)) else ()
    return isinstance(given, ast.Name) and given.id in {each.arg for each in names if isinstance(each, ast.arg)}


def _runs_replicas(file: SourceFile, call: FoundCall) -> bool:
    function = call.node.func
    if not isinstance(function, ast.Attribute) or function.attr != "run":
        return False
    if isinstance(function.value, ast.Name) and "strategy" in function.value.id.lower():
        return True
    return any(each.name.startswith("tensorflow.distribute.") for each in file.chain(function.value))


def measure(training: Training, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment."""
    replicas = training.info.get("replicas")
    if replicas is None:
        return Absent("no distribution strategy runs the step from Python")
    ratio, trial = trials.ratio(TRIAL, experiment="the step compiled")
    if ratio.mid >= 1:
        return Clear(f"compiled, the same step was measured to take {units.percent(ratio.mid)} of its time: no gain")
    remaining = model.stays_of_call(ratio, statistics.median(trial.baseline_ns) / 1e9)
    change = model.change_by_compiling(remaining, trial.detail.get("compile_s"), instead=False)
    several = f"{replicas} replicas take turns" if replicas > 1 else "the replica runs"
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=f"{several} op by op; compiled, the same step took {units.percent_range(ratio)} of its time",
            change=change,
            evidence={
                "replicas": replicas,
                "trial": trial.name,
                "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high},
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost
    runs = [
        (call.file, function)
        for call in (source.calls() if source is not None else ())
        if _runs_replicas(call.file, call) and not call.file.is_compiled(call.node)
        and (function := spots.function_around(call.file, call.node)) is not None
    ]  # fmt: skip
    found = spots.the_only(runs)
    sure = source is not None and found is not None and spots.compiles_alike(source, *found)
    edits = (Decorate(spots.start(*found), "@tensorflow.function"),) if found is not None and sure else ()
    return Fix("call strategy.run from a function decorated with @tf.function", "same", edits=edits)

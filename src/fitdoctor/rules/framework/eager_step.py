"""The step runs op by op instead of as one compiled function.

## What is wrong

With `run_eagerly=True`, `tf.config.run_functions_eagerly(True)`, or in a hand-written loop without
`tf.function` or `jax.jit`, Python launches every operation of the step by itself.  On small and middle-sized
models the launching takes longer than the computing.

## How it is established

The run shows that its step is not compiled, and the lab ran the very same step compiled, from the same
weights, on the same batches, in turns with the step as it is.  No experiment, no finding: an eager step of
large operations may gain nothing.

## What to do

Remove `run_eagerly=True`; decorate the step of a hand-written loop with `@tf.function` or `@jax.jit`.
Results agree within floating-point tolerance.

## When it is not worth it

When the experiment shows no gain, or while debugging.  Python side effects in the step (prints, appends
to lists) happen only while tracing once it is compiled.

## Example

    model.compile(optimizer, loss, run_eagerly=True)    # slow
    model.compile(optimizer, loss)                      # fast
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments, Decorate, Edit, Remove
from fitdoctor.facts import spots
from fitdoctor.facts.rewrites import believed
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Site
from fitdoctor.rules import Absent, Clear, Verdict

TRIAL = "compiled"
_SWITCH = ("tensorflow.config.run_functions_eagerly", "tensorflow.config.experimental_run_functions_eagerly")
_UPDATES = ("apply", "apply_gradients", "assign_sub", "minimize", "stateless_apply")
_BY_KERAS = frozenset({"train_step", "compute_loss", "call"})
"""Methods that Keras compiles by itself."""


SUSPICION = "may run every step op by op instead of as one compiled function"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find the switches, and gradient tapes in functions that nothing compiles."""
    for file in source.files:
        found = [call for call in file.calls_of("compile") if _switches(call)]
        found += [call for call in file.calls(*_SWITCH) if _switches(call) and (source.ran or _is_meant(file, call))]
        found += [
            call
            for call in file.calls("tensorflow.GradientTape")
            if _eager_tape(call) and (source.ran or (_applies(file, call) and file.repeats(call.node)))
        ]
        yield from (call.site for call in sorted(found, key=lambda call: call.node.lineno))


def _is_meant(file: SourceFile, call: FoundCall) -> bool:
    """Tell whether a switch is thrown for a training: by the whole script, or where one is; not as an option."""
    optional = any(isinstance(each, ast.If) for each in file.inside(call.node))
    main = isinstance(file.scope(call.node), ast.Module)
    return main or (file.trains and not optional)


def _applies(file: SourceFile, tape: FoundCall) -> bool:
    """Tell whether the function around a gradient tape also updates weights."""
    here = file.scope(tape.node)
    return any(file.scope(call.node) is here for call in file.calls_of(*_UPDATES))


def _switches(call: FoundCall) -> bool:
    named = isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "compile"
    return (named and _true(call.keyword("run_eagerly"))) or (
        call.name in _SWITCH and _true(call.argument(0, "run_eagerly"))
    )


def _eager_tape(call: FoundCall) -> bool:
    if call.name != "tensorflow.GradientTape" or call.file.is_compiled(call.node):
        return False
    around = [each for each in call.file.inside(call.node) if getattr(each, "name", None) in _BY_KERAS]
    return not any(isinstance(call.file.parents.get(each), ast.ClassDef) for each in around)


def _true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def measure(training: Training, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment."""
    if training.backend == "torch":
        return Absent("torch runs op by op by design; missing-xla judges compiling it")
    eager = bool(training.info.get("run_eagerly"))
    if training.kind == "loop":
        eager = eager or training.info.get("compiled") is False
    if not eager:
        return Clear("the step is compiled")
    if training.info.get("replicas") is not None:
        return Absent("a distribution strategy runs the step: eager-replicas judges it")
    ratio, trial = trials.ratio(TRIAL, experiment="the step compiled")
    # Of a loop only the function was compiled, not what is done around it.
    each = statistics.median(trial.baseline_ns) / 1e9
    remaining = model.stays_of_call(ratio, each) if training.kind == "loop" else ratio
    change = model.change_by_compiling(remaining, trial.detail.get("compile_s"), instead=False)
    if training.kind == "fit":
        change = believed(trials, trial.name, change, model)
    if ratio.mid >= 1:
        return Clear(f"compiled, the same step was measured to take {units.percent(ratio.mid)} of its time: no gain")
    gain = units.percent_range(ratio)
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=f"the step runs op by op; compiled, the same step took {gain} of its time",
            site=training.site if training.kind == "loop" else None,
            change=change,
            evidence={
                "trial": trial.name,
                "backend": training.backend,
                "baseline_steps": len(trial.baseline_ns),
                "compiled_steps": len(trial.changed_ns),
                "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high},
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    calls = list(source.calls()) if source is not None else []
    switched = [each for call in calls if _switches(call) for each in _off(call)]
    if cost.site is None:
        return Fix("remove run_eagerly=True", "same", edits=tuple(switched))
    decorator = "@jax.jit" if cost.evidence.get("backend") == "jax" else "@tf.function"
    title = f"decorate the step with {decorator}; what it prints or keeps moves out of it"
    tapes = [call for call in calls if _eager_tape(call)]
    steps = {function: call for call in tapes if (function := spots.function_around(call.file, call.node)) is not None}
    if len(steps) != 1:
        return Fix(title, "same", edits=tuple(switched) if not tapes else ())
    ((step, tape),) = steps.items()
    # A function that makes many steps would be traced with all of them, or with data that comes once.
    many = any(
        isinstance(each, (ast.For, ast.While)) and step in tape.file.inside(each)
        for each in tape.file.inside(tape.node)
    )
    if source is None or many or not spots.compiles_alike(source, tape.file, step):
        return Fix(title, "same")
    return Fix(title, "same", edits=(*switched, Decorate(spots.start(tape.file, step), "@tensorflow.function")))


def _off(call: FoundCall) -> Iterator[Edit]:
    """Take a switch away: the argument of `compile`, or the statement."""
    if call.name not in _SWITCH:
        yield Arguments(spots.spot(call), drop=("run_eagerly",), order=spots.COMPILE)
        return
    statement = spots.statement_of(call.file, call.node)
    if statement is not None:
        yield Remove(spots.start(call.file, statement))

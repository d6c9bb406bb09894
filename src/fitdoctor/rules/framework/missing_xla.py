"""XLA would make this very model faster.

## What is wrong

`jit_compile` lets XLA fuse the operations of the step into few kernels.  Keras turns it on by itself on JAX and on
TensorFlow with a GPU, not on TensorFlow with a CPU.  For some models it halves the step, for others it makes it slower.

## How it is established

The lab trained the very model on one batch with and without it, in turns.  The time XLA takes to compile is not part of
the comparison; it is paid once per shape.

## What to do

Pass `jit_compile=True` to `compile`.  Results agree within floating-point tolerance.

## When it is not worth it

When the experiment shows no gain; when batches change their shape (each new shape compiles again).

## Example

    model.compile(optimizer, loss)                       # slow
    model.compile(optimizer, loss, jit_compile=True)     # fast, for this model
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.facts import spots
from fitdoctor.facts.mapped import method
from fitdoctor.facts.rewrites import believed
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "jit_compile"


SUSPICION = "may train slower than it could: XLA is turned off"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find the calls of `compile` that turn it off; leaving it to Keras is no suspicion."""
    for call in source.compile_calls():
        value = call.keyword("jit_compile")
        if isinstance(value, ast.Constant) and value.value is False and (source.ran or _is_trained(call)):
            yield call.site


def _is_trained(call: FoundCall) -> bool:
    """Tell whether the model is given to `fit` where it is compiled, or may be elsewhere; not if it is only asked."""
    here = call.file.scope(call.node)
    asked = {
        method(each) for each in call.file.calls_of("fit", "predict", "evaluate") if call.file.scope(each.node) is here
    }
    return "fit" in asked or (not asked and call.file.trains)


def place(source: SourceTree) -> Iterator[Site]:
    """Find the calls of `compile`."""
    return (call.site for call in source.compile_calls())


def measure(training: Training, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment."""
    if training.kind != "fit":
        return Absent(f"{training.kind} is not compiled by Keras")
    if training.backend == "torch":
        return Absent("on torch this is torch.compile: try model.compile(jit_compile=True)")
    if training.info.get("run_eagerly"):
        return Clear("the step is not even compiled: eager-step judges that")
    if training.info.get("jit_compile"):
        return Clear("XLA compiles the step already")
    if model.input_bound:
        return INPUT_BOUND
    ratio, trial = trials.ratio("jit_compile=True", experiment=EXPERIMENT)
    if ratio.mid >= 1:
        return Clear(f"compiled by XLA, the same step was measured to take {units.percent(ratio.mid)}: no gain")
    change = believed(trials, trial.name, model.change_by_compiling(ratio, trial.detail.get("compile_s")), model)
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=f"compiled by XLA, the same step took {units.percent_range(ratio)} of its time",
            change=change,
            evidence={"ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high}},
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost
    call = spots.the_compile(source)
    give = (("jit_compile", "True"),)
    edits = (Arguments(spots.spot(call), give, order=spots.COMPILE),) if call is not None else ()
    return Fix("pass jit_compile=True to compile", "same", edits=edits)

"""The model computes in double precision.

## What is wrong

In `float64` every number takes twice the memory traffic and vector units do half as many operations at once; GPUs do a
small fraction.  Training seldom needs it.

## How it is established

The lab made a single-precision twin of the very model from its own description and trained both on the same batch, in
turns.

## What to do

Drop `set_floatx("float64")` or `dtype="float64"`.  Data in double precision is cast by Keras where the model is single
precision.  Losses differ in the last digits, so training takes another path; where the problem really needs double
precision, keep it.

## When it is not worth it

When the step waits for input; when the experiment shows no gain.

## Example

    keras.config.set_floatx("float64")    # slow
    keras.config.set_floatx("float32")    # fast, and the default
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.facts import spots
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "single precision"
_SETTERS = frozenset({"set_floatx", "set_dtype_policy", "set_global_policy"})


SUSPICION = "may make every step compute in double precision, at half the speed or less"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find double precision set for all layers."""
    return (call.site for call in _set(source))


def _set(source: SourceTree) -> Iterator[FoundCall]:
    for file in source.files:
        for call in file.calls_of(*_SETTERS):
            if any(isinstance(given, ast.Constant) and given.value == "float64" for given in call.node.args):
                yield call


def measure(training: Training, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment."""
    dtype = training.info.get("dtype")
    if training.kind != "fit":
        return Absent(f"the precision of a {training.kind} is not seen")
    if dtype != "float64":
        return Clear("the model does not compute in double precision")
    if model.input_bound:
        return INPUT_BOUND
    ratio, _ = trials.ratio("float32", experiment=EXPERIMENT)
    if ratio.mid >= 1:
        return Clear("in single precision a step was measured to take just as long")
    change = Change("work", ratio.clip(0.0, 1.0))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=f"in single precision a step took {units.percent_range(ratio)} of its time",
            change=change,
            evidence={"ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high}},
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost
    calls = list(_set(source)) if source is not None else []
    edits = tuple(Arguments(spots.spot(call), (("value", '"float32"'),), order=("value",)) for call in calls)
    return Fix("compute in float32", "may change", edits=edits)

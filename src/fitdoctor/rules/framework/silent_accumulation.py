"""The weights are updated once in several batches, and the batches are too small to be trained one by one.

## What is wrong

With `gradient_accumulation_steps=N` an optimizer of Keras adds up the gradients of N batches and updates the weights
once.  That is how a batch is made that does not fit into memory.  Where it would fit, N small steps do the work of one:
each launches every operation anew, and what looks like a step of the training is a part of one.

## How it is established

The optimizer says how many batches it accumulates.  The lab trained the very model on batches 2, 4, 8, 16 and 32 times
as large (as long as a sample still got cheaper and memory sufficed), in turns with the user's own.  The saving is what
a sample takes less in those of them that make the same updates.

## What to do

Make the batch as many times as large, and accumulate as many times less (or not at all).  An update is made of the
same samples as before; only layers that look at a batch as a whole (`BatchNormalization`) see another one.

## When it is not worth it

When the larger batch does not fit into the memory of the device that it is meant for; when the step waits for input.

## Example

    model.compile(keras.optimizers.Adam(gradient_accumulation_steps=8), "mse")    # slow
    model.fit(x, y, batch_size=4)
    model.compile(keras.optimizers.Adam(), "mse")                                 # fast
    model.fit(x, y, batch_size=32)
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.facts import batch_curve
from fitdoctor.facts.batch_curve import fewer_steps
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

SUSPICION = "may do in several small steps what one larger batch does in one"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find optimizers that are told to accumulate."""
    for file in source.files if source.trains else ():
        for call in file.calls_with("gradient_accumulation_steps"):
            several = file.constant(call.keyword("gradient_accumulation_steps"))
            if source.ran or (isinstance(several, int) and several > 1 and _is_compiled_in(call)):
                yield call.site


def _is_compiled_in(call: FoundCall) -> bool:
    """Tell whether the function that makes an optimizer also compiles a model."""
    here = call.file.scope(call.node)
    return any(call.file.scope(each.node) is here for each in SourceTree((call.file,)).compile_calls())


def measure(training: Training, trials: Trials, model: StepModel) -> Verdict:
    """Take what larger batches give from the experiment, as far as they make the same updates."""
    if training.kind != "fit":
        return Absent(f"the batches of a {training.kind} are the script's own")
    times = training.info.get("accumulation")
    if not times:
        return Clear("the optimizer updates the weights after every batch")
    if model.input_bound:
        return INPUT_BOUND
    curve = batch_curve.establish(training, trials)
    same = [factor for factor in curve.steps if times % factor == 0]
    if not same:
        return Clear(f"the gradients of {times} batches are accumulated, and no larger batch makes the same updates")
    factor = curve.best(same)
    each = curve.per_sample(factor)
    if each.mid >= 1:
        return Clear(
            f"the gradients of {times} batches are added up; in batches {factor} times as large a sample took as long"
        )
    change = fewer_steps(each, factor)
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"the weights are updated once in {times} batches of {curve.own}; in batches of {curve.own * factor}, "
                f"updated once in {times // factor}, a sample took {units.percent_range(each)} of its time"
            ),
            change=change,
            evidence={
                "accumulation": times,
                "own": curve.own,
                "batch_size": curve.own * factor,
                "left": times // factor,
                "steps": {str(n): {"low": r.low, "mid": r.mid, "high": r.high} for n, r in curve.steps.items()},
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    left = int(cost.evidence.get("left", 1))
    rest = f"gradient_accumulation_steps={left}" if left > 1 else "no gradient_accumulation_steps"
    return Fix(f"train on batches of {cost.evidence.get('batch_size')} with {rest}", "may change")

"""Batches are so small that most of a step does not depend on them.

## What is wrong

A step launches its operations, reads all weights and updates them, whether it gets one sample or thirty.  With a few
samples per batch that is most of the step: the hardware could train several times as many samples in the same time.

## How it is established

The lab trained the very model on batches 2, 4, 8, 16 and 32 times as large (as long as a sample still got cheaper and
memory sufficed), in turns with the user's own.  What twice the samples do not add to a step does not depend on them.
Only if that is most of the step, beyond what the same batches would gain by `steps_per_execution`, XLA or fewer metrics
(measured too), is the batch called tiny, and only up to 32 samples, what Keras takes by itself: how much larger batches
may get before the model learns more slowly, nobody can tell from speed.  What those others would gain is not counted,
but for batches of at most four samples.  (On two cores a small network on batches of 64 took twice as long for a step
on 512: faster per sample, and another training.  Twice the batch took 1.2 times as long on torch with 16 samples and a
tiny model, and 1.8 to 2.6 times with 48 or 64 samples and ordinary convolutions.)

## What to do

A larger `batch_size`, with a larger learning rate: about as many times as large for SGD, its square root for Adam.
Fewer, better updates are made per epoch, so compare the losses.  Where a larger batch does not fit into memory,
`gradient_accumulation_steps` of Keras's optimizers makes one update of several batches: that keeps the learning of the
larger batch and saves the updates, but not the launches.

## When it is not worth it

When small batches are part of the method (online learning, very noisy gradients wanted); when the step waits for input.

## Example

    model.fit(x, y, batch_size=2)                          # slow
    model.compile(keras.optimizers.SGD(0.08), "mse")       # was SGD(0.01)
    model.fit(x, y, batch_size=16)                         # fast
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.facts import batch_curve
from fitdoctor.facts.batch_curve import BatchCurve, batch_of, fewer_steps, given_for_free
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Interval, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

USUAL = 32
"""What Keras takes as a batch when the script does not say: larger ones are a matter of learning."""
VERY_FEW = 4
"""So few samples are what is wrong, whatever else would help them."""


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: what a small batch costs depends on the model."""
    del source
    return iter(())


def place(source: SourceTree) -> Iterator[Site]:
    """Find where the batch is given its size."""
    for call in source.calls():
        method = call.node.func.attr if isinstance(call.node.func, ast.Attribute) else ""
        if call.keyword("batch_size") is not None or method in ("batch", "padded_batch"):
            yield call.site


def measure(training: Training, trials: Trials, model: StepModel) -> Verdict:
    """Take the curve from the experiment, without what other changes would give."""
    if training.kind != "fit":
        return Absent(f"the batches of a {training.kind} are the script's own")
    if training.info.get("accumulation"):
        return Clear("the gradients of several batches are accumulated: silent-accumulation judges that")
    if training.info.get("run_eagerly"):
        return Clear("the step is not even compiled: eager-step judges that")
    size = batch_of(training, trials)
    if size is not None and 2 * size > USUAL:
        return _not_small(size)
    if model.input_bound:
        return INPUT_BOUND
    return _judge(trials, model, batch_curve.establish(training, trials))


def _not_small(size: int) -> Clear:
    return Clear(f"batches of {size} samples are not small: larger ones are a matter of learning, not of speed")


def _judge(trials: Trials, model: StepModel, curve: BatchCurve) -> Verdict:
    if 2 * curve.own > USUAL:
        return _not_small(curve.own)
    free = given_for_free(trials)
    given = 1 - free.low
    samples = 1 - curve.fixed.low
    factor = curve.best(each for each in curve.steps if each * curve.own <= USUAL)
    each = curve.per_sample(factor)
    if curve.fixed.low - given <= samples or each.mid >= free.low:
        return Clear(
            f"of a step on {curve.own} samples, {units.percent_range(curve.fixed)} do not depend on them: "
            "most of it is their own work, or would be gained without other batches"
        )
    left = each
    if curve.own > VERY_FEW:
        # What the same batches would gain in other ways is not this cause's.
        left = Interval(*(1 - stays + end for stays, end in zip(reversed(free.ends), each.ends, strict=True)))
    change = fewer_steps(left, factor)
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{units.percent_range(curve.fixed)} of a step do not depend on its {curve.own} samples: in batches of "
                f"{curve.own * factor} a sample took {units.percent_range(each)} of its time"
            ),
            change=change,
            evidence={
                "own": curve.own,
                "batch_size": curve.own * factor,
                "factor": factor,
                "steps": {str(n): {"low": r.low, "mid": r.mid, "high": r.high} for n, r in curve.steps.items()},
                "memory_ends_it": curve.memory_ends_it,
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    factor, size = int(cost.evidence.get("factor", 2)), cost.evidence.get("batch_size")
    rates = f"with a larger learning rate (about {factor} times for SGD, {math.sqrt(factor):.2g} times for Adam)"
    title = f"train on batches of {size}, {rates}, and compare the losses"
    if cost.evidence.get("memory_ends_it"):
        title += "; if still larger ones do not fit into memory, use the optimizer's gradient_accumulation_steps"
    return Fix(title, "may change")

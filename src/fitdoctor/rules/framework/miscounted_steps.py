"""`steps_per_epoch` counts samples instead of batches.

## What is wrong

A step trains one batch.  With `steps_per_epoch=len(x)` on data that never ends, an epoch goes over the data as many
times as a batch has samples: 32 times the work that was meant.  (Data that ends is cut off by Keras with a warning, and
costs nothing.)

## How it is established

The dataset says how many samples one pass has below its `repeat()`, the run how many steps an epoch has.  Only where
the two are the very same number, and a batch has more than one sample, are steps taken for samples: epochs of several
passes are nothing wrong in themselves.  A generator does not say how many samples it has: there the line of the source
is a suspicion and no more.  The saving is the steps beyond one pass.

## What to do

`steps_per_epoch=math.ceil(len(x) / batch_size)`, or drop `repeat()` and `steps_per_epoch`: then an epoch is a pass.
The model learns as much less per epoch as there are fewer steps, so more epochs may be needed, each a fraction of the
time.

## When it is not worth it

When it was meant: an epoch may be any number of steps.

## Example

    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32).repeat()
    model.fit(data, steps_per_epoch=len(x))              # slow: 32 passes per epoch
    model.fit(data, steps_per_epoch=len(x) // 32)        # fast: one
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

SUSPICION = "may go over the data many times in each epoch: the steps are counted in samples"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find a `fit` whose steps are the length of the very array that feeds its data, or a number of samples."""
    for file in source.files:
        for call in file.calls_with("steps_per_epoch"):
            steps = call.keyword("steps_per_epoch")
            method = call.node.func.attr if isinstance(call.node.func, ast.Attribute) else ""
            if steps is not None and method == "fit" and _counts_samples(file, call, steps):
                yield call.site


def _counts_samples(file: SourceFile, call: FoundCall, steps: ast.expr) -> bool:
    if isinstance(steps, ast.Subscript):
        first = isinstance(steps.slice, ast.Constant) and steps.slice.value == 0
        return first and getattr(steps.value, "attr", None) == "shape"
    if isinstance(steps, ast.Attribute):
        return steps.attr == "samples"
    if not (isinstance(steps, ast.Call) and file.resolve(steps.func) == "len" and len(steps.args) == 1):
        return False
    data, counted = call.argument(0, "x"), steps.args[0]
    return isinstance(counted, ast.Name) and data is not None and counted.id in _feeding(file, data)


def _feeding(file: SourceFile, data: ast.expr) -> set[str]:
    """Return the names that are given to the calls which make the data."""
    given = [each for call in file.chain(data) for each in call.node.args]
    return {node.id for each in given for node in ast.walk(each) if isinstance(node, ast.Name)}


@dataclass(frozen=True, slots=True)
class _Pass:
    samples: int
    batches: int


def _one_pass(operators: Sequence[Mapping[str, Any]]) -> _Pass | None:
    """Return how much there is below an endless `repeat`; None where the dataset does not say, or ends."""
    place, above = 0, None
    while place < len(operators):
        operator = operators[place]
        below = (operator.get("inputs") or [place + 1])[0]
        if operator.get("op") == "Repeat" and operator.get("elements") == "infinite":
            return _below(operators, below, above)
        above = above or operator.get("batch")
        if below <= place:
            return None
        place = below
    return None


def _below(operators: Sequence[Mapping[str, Any]], place: int, above: int | None) -> _Pass | None:
    """Count one pass; `above` is the batch that is made of what is repeated, if it is made after that."""
    count = operators[place].get("elements") if place < len(operators) else None
    if not isinstance(count, int) or count <= 0:
        return None
    if above:
        return _Pass(count, math.ceil(count / above))
    while place < len(operators):
        below = (operators[place].get("inputs") or [place + 1])[0]
        samples = operators[below].get("elements") if below < len(operators) else None
        if operators[place].get("batch"):
            return _Pass(samples, count) if isinstance(samples, int) and samples > 0 else None
        if below <= place:
            return None
        place = below
    return None


def measure(training: Training, source: SourceTree | None, model: StepModel) -> Verdict:
    """Compare the steps of an epoch with the samples of a pass."""
    if training.kind != "fit":
        return Absent(f"{training.kind} has no steps_per_epoch")
    steps = training.info.get("steps_per_epoch")
    if training.info.get("adapter") == "generator" and source is not None and any(locate(source)):
        raise MissingEvidence(
            Gap(
                "how many samples the data has",
                "a generator does not say it",
                "pass steps_per_epoch=math.ceil(samples / batch_size) if an epoch is meant to be one pass",
            )
        )
    one = _one_pass(training.info.get("dataset") or ())
    if one is None or not steps:
        return Absent("the data ends by itself, or does not say how much there is: its steps cannot be miscounted")
    told = f"an epoch has {steps:,} steps; a pass over the data has {one.samples:,} samples in {one.batches:,} batches"
    if steps != one.samples or one.batches >= one.samples:
        return Clear(told)
    stays = Interval.exact(one.batches / steps)
    change = Change("step", stays, also=(Change("callbacks", stays),))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{told}: as many steps as samples, so that each epoch goes over the data "
                f"{units.count(steps / one.batches)} times"
            ),
            site=training.site,
            change=change,
            evidence={"steps_per_epoch": steps, "samples": one.samples, "batches": one.batches},
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    batches = cost.evidence.get("batches")
    call = spots.fit_at(source, cost.site)
    give = (("steps_per_epoch", str(batches)),)
    edits = (Arguments(spots.spot(call), give, order=spots.FIT),) if call is not None and batches else ()
    return Fix(f"pass steps_per_epoch={batches}: one pass over the data", "may change", edits=edits)

"""The same preprocessing is done again in every epoch.

## What is wrong

Decoding, resizing, tokenising or normalising gives the same result in every epoch, and is paid for in every epoch.

## How it is established

The lab found the last stage of the `tf.data` pipeline below every shuffle, repeat and random function, compared what
comes out with and without a cache there over two epochs bit for bit, cached as many elements as time and memory allow,
put the rest of the pipeline on top, and pulled batches in turns with the pipeline as it is.  The gain of the step
follows from the step model; the first epoch still pays.

## What to do

`.cache()` right after that stage, below `shuffle`, random augmentation and `repeat`.  If the elements do not fit into
memory, `.cache(filename)` keeps them on a disk; or prepare them once, offline.  The model sees the same data.

## When it is not worth it

With one epoch; when the step does not wait for input; when elements are random.

## Example

    data.map(decode).shuffle(1000).batch(32)            # slow
    data.map(decode).cache().shuffle(1000).batch(32)    # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from fitdoctor import units
from fitdoctor.edits import Chain
from fitdoctor.facts import spots
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.rewrites import believed, felt
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel, stays
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials, rewrite
from fitdoctor.model import Change, Cost, Fix, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

NAME = "repeated-preprocessing"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: a map without a cache is not suspicious by itself."""
    del source
    return iter(())


def place(source: SourceTree) -> Iterator[Site]:
    """Find the maps of pipelines."""
    for file in source.files:
        for call in file.calls():
            if isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "map":
                yield call.site


def measure(training: Training, pipeline: InputPipeline, trials: Trials, model: StepModel) -> Verdict:
    """Take the rate of cached elements from the experiment and the gain of the step from the model."""
    if pipeline.adapter != "tf.data" or pipeline.operators is None:
        return Absent(f"the input is {pipeline.adapter}, not tf.data")
    if any(each.op == "Cache" for each in pipeline.operators):
        return Clear("the pipeline has a cache")
    if pipeline.only_moves:
        return Clear("the pipeline only batches what is in memory")
    if training.epochs < 2:
        return Absent("there is one epoch: nothing is repeated")
    model.need("input")
    if not felt(trials, model, rewrite(NAME)):
        return Clear("the step does not wait for input")
    # Where the data surely stays the same before where Python is only believed to repeat itself.
    ratio, trial = min(trials.rewritten(NAME), key=lambda each: each[1].detail.get("safety") != "same")
    if ratio.low >= 1:
        return Clear("batches of cached elements take just as long")
    ratio = ratio.clip(0.0, 1.0)
    first = 1 / training.epochs
    later = Interval(*(each + (1 - each) * first for each in (ratio.low, ratio.mid, ratio.high)))
    change = believed(
        trials, trial.name, Change("input", later, also=_between(pipeline, later)), model, training.epochs
    )
    size = _size(trial.detail, training)
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"what the pipeline does up to its {trial.detail.get('after', 'map')} is the same in each of "
                f"{training.epochs} epochs; with it cached a batch took {units.percent_range(ratio)} of the time"
                + (f" (a cache of {units.size(size)})" if size else "")
            ),
            site=_site(trial.detail.get("site")),
            change=change,
            evidence={
                "safety": trial.detail.get("safety"),
                "after": trial.detail.get("after"),
                "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high},
                "cache_bytes": size,
                "epochs": training.epochs,
            },
        )
    ]


def _site(found: Any) -> Site | None:
    return Site(str(found[0]), int(found[1])) if found else None


def _between(pipeline: InputPipeline, ratio: Interval) -> tuple[Change, ...]:
    """Return what becomes of the time between epochs: a shuffle fills its buffer before it gives the first element.

    How much of that time the filling takes is not known: none of it, all of it, in the middle half.
    """
    if not any(each.op == "Shuffle" for each in pipeline.operators or ()):
        return ()
    return (Change("between epochs", stays(ratio, 0.0, 1.0)),)


def _size(detail: object, training: Training) -> int | None:
    """Return the bytes a cache would hold, where the number of elements is known."""
    assert isinstance(detail, dict)
    element, count = detail.get("element_bytes"), detail.get("elements")
    if not element:
        return None
    if count is None and training.steps_per_epoch and training.info.get("batch_size"):
        count = training.steps_per_epoch * int(training.info["batch_size"])
    return int(element * count) if count else None


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    title = "add .cache() after the last deterministic map, or .cache(filename) if memory is short"
    call = spots.call_at(source, cost.site, spots.OPERATORS.get(str(cost.evidence.get("after")), "map"))
    edits = (Chain(spots.spot(call), ".cache()"),) if call is not None else ()
    return Fix(title, "same" if cost.evidence.get("safety") == "same" else "may change", edits=edits)

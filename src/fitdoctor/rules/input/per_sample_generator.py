"""A Python generator yields one sample at a time.

## What is wrong

`tf.data.Dataset.from_generator` calls back into Python, converts and checks types for every single element.  That costs
tens of microseconds per sample, holding the GIL, however little the generator itself does; a batch of 64 pays it 64
times.

## How it is established

Each call of the generator is counted and timed inside the run.  The lab then pulled elements from the generator alone,
without the pipeline, in turns with the dataset made of it: the difference is what yielding single samples costs.

Where samples have one shape and are batched as they come, it also stacked them in Python, a batch at a time, and pulled
batches of these in turns with the pipeline as it is.

The saving is a range: at its low end the user's own Python stays as it is and only the pipeline's cost per element goes
(batches stacked in the generator, as measured), at its high end nothing of it stays (batches sliced from an array).

## What to do

Yield whole batches and drop `.batch(…)`; or hand `fit` the array itself, or an indexable dataset
(`keras.utils.PyDataset`, Grain) that makes a batch per call.  The model sees the same samples in the same order.

## When it is not worth it

When the step does not wait for input; when the generator's own work is the cost (see python-map, idle-workers).

## Example

    for i in range(len(x)):            # slow
        yield x[i], y[i]
    for i in range(0, len(x), 64):     # fast
        yield x[i : i + 64], y[i : i + 64]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.mapped import method, upstream
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel, input_change
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "the generator alone"
REWRITES = "rewrite per-sample-generator"
STACKED = "rewrite: per-sample-generator [whole batches]"
_FEW = 1.5
"""Elements per step up to which a generator yields whole batches."""


_MADE = "tensorflow.data.Dataset.from_generator"
_READERS = frozenset({"flat_map", "interleave", "unbatch"})
SUSPICION = "may pay Python and TensorFlow for every single sample that the generator yields"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find datasets made of a generator and batched in the same file."""
    for file in source.files:
        batched = any(isinstance(call.node.func, ast.Attribute) for call in file.calls_of("batch", "padded_batch"))
        for call in file.calls(_MADE) if batched else ():
            if source.ran or call.node in _batched_as_it_comes(file):
                yield call.site


def _batched_as_it_comes(file: SourceFile) -> set[ast.Call]:
    """Return what is made of a generator and batched, with nothing in between that reads what it names."""
    found = set()
    for call in file.calls_of("batch", "padded_batch"):
        before = upstream(file, call)
        if before and before[0].name == _MADE and not _READERS & {method(each) for each in before}:
            found.add(before[0].node)
    return found


def measure(pipeline: InputPipeline, trials: Trials, model: StepModel) -> Verdict:
    """Compare the generator alone with the dataset made of it."""
    functions = [each for each in pipeline.functions if each.kind == "generator" and each.wall_each > 0]
    if not functions:
        return Absent("no generator feeds the pipeline")
    busiest = max(functions, key=lambda each: each.wall_step)
    per_step = busiest.wall_step / busiest.wall_each
    if per_step <= _FEW:
        return Clear("the generator yields whole batches")
    model.need("input")
    if model.share("input").high <= model.noise:
        return Clear("the step does not wait for input")
    ratio, trial = trials.ratio("generator alone", experiment=EXPERIMENT)
    element = rows.median(trial.baseline_ns).mid / 1e9
    loader = model.input_alone.seconds.mid if model.input_alone is not None else element * per_step
    share = min(1.0, element * per_step / loader) if loader > 0 else 1.0
    own = ratio.clip(0.0, 1.0)
    change = input_change(_stays(trials) or Interval(*(1 - share * (1 - each) for each in (0, own.mid / 2, own.high))))
    path, line = trial.detail.get("path"), trial.detail.get("line")
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"each of {per_step:.0f} elements per step costs {units.duration(element)}, "
                f"of which the generator itself takes {units.percent(own.mid)}"
            ),
            site=Site(str(path), int(line), None, trial.detail.get("symbol")) if path and line else busiest.site,
            change=change,
            evidence={"elements_per_step": per_step, "element_us": element * 1e6, "own_share": own.mid},
        )
    ]


def _stays(trials: Trials) -> Interval | None:
    """Return what stays of a batch's time once samples are stacked in Python, or are not single samples any more."""
    try:
        stacked = trials.ratio(STACKED, experiment=REWRITES)[0].clip(0.0, 1.0)
    except MissingEvidence:
        return None
    return Interval(0.0, stacked.mid / 2, stacked.high)


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost, source
    return Fix("yield whole batches and drop .batch(), or hand over the arrays", "same")

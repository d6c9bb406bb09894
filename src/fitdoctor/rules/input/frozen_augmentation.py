"""A cache keeps what should be random: every epoch sees the same.

## What is wrong

`cache()` stands after a function that draws random numbers (flips, crops, noise, masks).  It keeps what was drawn in
the first epoch, and every later epoch sees those very elements again: the training is fast, and the augmentation is
gone.

## How it is established

The lab takes some of the user's own elements from below the random function, runs a copy of the function on them twice
and counts how many come out differently; then it does the same behind a cache.  (With a global seed TensorFlow draws
the same numbers in every epoch, measured with 2.21; then elements differ only where their order does, so below a
shuffle the second pass begins one element later.)  It saves no time to repair this (the lab says what it costs), so it
is reported as a suspicion with what was seen, never as a finding with a saving.

## What to do

Put the cache before the random function: `data.map(decode).cache().map(augment)`.  What is deterministic stays cached.

## When it is not worth it

With one epoch; where the same draws in every epoch are meant (a fixed noise to be removed, a validation set).

## Example

    data.map(decode).map(augment).cache().shuffle(1000)     # fast and wrong
    data.map(decode).cache().map(augment).shuffle(1000)     # right
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.input_pipeline import InputPipeline, Operator
from fitdoctor.facts.mapped import called_in, upstream
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Gap, Site
from fitdoctor.rules import Absent, Clear, Suspect, Verdict

EXPERIMENT = "random elements drawn again"
_RANDOM = (
    "tensorflow.random.", "tensorflow.image.random_", "tensorflow.image.stateless_random_",
    "tensorflow.image.stateless_sample_", "keras.random.", "keras.layers.Random",
)  # fmt: skip


SUSPICION = 'may give every epoch the same "random" data: the cache keeps what was drawn once'


def locate(source: SourceTree) -> Iterator[Site]:
    """Find caches of what a map with random numbers gives."""
    for file in source.files:
        for call in file.calls_of("cache"):
            if any(name.startswith(_RANDOM) for before in upstream(file, call) for name in called_in(file, before)):
                yield call.site


def measure(training: Training, pipeline: InputPipeline, trials: Trials) -> Verdict:
    """Say what the lab saw of elements that were drawn twice."""
    if pipeline.adapter != "tf.data" or pipeline.operators is None:
        return Absent(f"the input is {pipeline.adapter}, not tf.data")
    cache = _cache_above_random(pipeline.operators)
    if cache is None:
        if not any(each.op == "Cache" for each in pipeline.operators):
            return Absent("the pipeline has no cache")
        return Clear("nothing below the cache draws random numbers")
    if training.epochs < 2:
        return Absent("there is one epoch: nothing is seen twice")
    _, trial = trials.ratio("drawn anew", experiment=EXPERIMENT)
    count, differ, behind = (int(trial.detail[name]) for name in ("elements", "differ", "differ_behind_cache"))
    if differ == 0:
        return Clear(f"{count} elements from below the cache were drawn twice and came out the same")
    if behind > 0:
        return Clear("elements from behind a cache still differ from one pass to the next")
    if cache.site is None:
        raise MissingEvidence(
            Gap(
                "the line of the cache",
                "the pipeline was made before it could be seen",
                "start the script with fitdoctor run",
            )
        )
    now, then = (rows.median(each).mid / 1e9 for each in (trial.baseline_ns, trial.changed_ns))
    return Suspect(
        f"{differ} of {count} elements came out differently when they were drawn twice, behind a cache none: each of "
        f"{training.epochs} epochs sees what the first one drew; to draw them anew costs {units.duration(then)} an "
        f"element instead of {units.duration(now)}",
        cache.site,
    )


_ORDER = ("Shuffle", "Random", "SampleFrom", "ShuffleAndRepeat")
"""Operators that draw themselves: an order that is kept is no picture that is kept."""


def _cache_above_random(operators: tuple[Operator, ...]) -> Operator | None:
    """Return the innermost cache that has a random function below it."""
    found = cache = None
    for operator in operators:
        if operator.op == "Cache":
            cache = operator
        elif operator.random and operator.op not in _ORDER and cache is not None:
            found = cache
    return found


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost, source
    return Fix("move .cache() before the map that draws random numbers", "may change")

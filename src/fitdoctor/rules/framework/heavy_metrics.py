"""Metrics take a visible part of every step.

## What is wrong

Every metric given to `compile` is computed on every training batch.  Metrics with many thresholds (AUC, precision at
recall), with large confusion matrices or with sorting can cost more than the layers they judge.

## How it is established

The lab trained the very model on one batch with and without the metrics, in turns.

## What to do

Fewer thresholds; or compute the metric in validation only, with a callback or `evaluate`; or pass it as
`weighted_metrics` of a second, evaluated model.  The learning is the same.

## When it is not worth it

When the experiment shows no gain: most metrics cost next to nothing.

## Example

    model.compile(optimizer, loss, metrics=[keras.metrics.AUC(num_thresholds=20000)])    # slow
    model.compile(optimizer, loss, metrics=[keras.metrics.AUC(num_thresholds=200)])      # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.facts.rewrites import believed
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "metrics off"


_MANY = 1000
"""So many thresholds make a metric suspicious."""
_OF_AUC = 200
"""Those of an AUC that is not told otherwise."""
_OF_EACH, _TOGETHER = 100, 3
"""And so many metrics with so many thresholds each."""


SUSPICION = "may take a visible part of every step: these metrics have very many thresholds"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find metrics with very many thresholds, and lists of metrics that have many together."""
    for file in source.files:
        for call in file.calls_with("num_thresholds"):
            value = file.constant(call.keyword("num_thresholds"))
            if isinstance(value, int) and value >= _MANY:
                yield call.site
    for call in source.compile_calls():
        metrics = call.keyword("metrics")
        given = metrics.elts if isinstance(metrics, (ast.List, ast.Tuple)) else []
        many = [each for each in given if _thresholds(call.file, each) >= _OF_EACH]
        if metrics is not None and len(many) >= _TOGETHER:
            yield call.file.site(metrics)


def _thresholds(file: SourceFile, metric: ast.expr) -> int:
    """Return how many thresholds a metric is given, as far as the source says."""
    for each in metric.keywords if isinstance(metric, ast.Call) else ():
        if each.arg == "num_thresholds":
            number = file.constant(each.value)
            return number if isinstance(number, int) else 0
        if each.arg == "thresholds":
            return _length(file, each.value)
    automatic = isinstance(metric, ast.Call) and file.resolve(metric.func) == "keras.metrics.AUC"
    return _OF_AUC if automatic else 0


def _length(file: SourceFile, given: ast.expr) -> int:
    """Return the length of a list that is written out, or made from a number of values."""
    if isinstance(given, ast.Name):
        values = [each.value for each in file.assigned.get(given.id, ())]
        return _length(file, values[0]) if len(values) == 1 and not isinstance(values[0], ast.Name) else 0
    if isinstance(given, (ast.List, ast.Tuple)):
        return len(given.elts)
    counts = [each.value for each in ast.walk(given) if isinstance(each, ast.Constant) and type(each.value) is int]
    return max(counts, default=0)


def place(source: SourceTree) -> Iterator[Site]:
    """Find the calls of `compile` that are given metrics."""
    return (call.site for call in source.compile_calls() if call.keyword("metrics") is not None)


def measure(training: Training, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment."""
    if training.kind != "fit":
        return Absent(f"{training.kind} computes no metrics of its own")
    names = training.info.get("metrics")
    if names is not None and not names:
        return Absent("no metrics were given to compile")
    if model.input_bound:
        return INPUT_BOUND
    ratio, trial = trials.ratio("metrics off", experiment=EXPERIMENT)
    if ratio.mid >= 1:
        return Clear("without its metrics the step was measured to take just as long")
    change = believed(trials, trial.name, Change("work", ratio.clip(0.0, 1.0)), model)
    names = trial.detail.get("metrics") or names or []
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"without its metrics ({', '.join(names)}) a step took {units.percent_range(ratio)} of its time"
                if names
                else f"without its metrics a step took {units.percent_range(ratio)} of its time"
            ),
            change=change,
            evidence={"metrics": list(names), "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high}},
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost, source
    return Fix("fewer thresholds, or compute these metrics in validation only", "same")

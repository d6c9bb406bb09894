"""The optimizer updates the whole embedding table in every step, though a batch uses few of its rows.

## What is wrong

An embedding table of a million rows meets a few thousand of them in a batch.  Optimizers that keep values of their own
for every weight (Adam, RMSprop, momentum) go through the whole table, and through those values, in every step; on JAX
and torch the gradient is as large as the table too.

## How it is established

The lab made the optimizer's update alone, on gradients as large and as sparse as the backend's real ones, of all
weights and of all but the embedding tables, in turns.  It counted the rows that a batch uses.  The saving is what the
tables take of the update, less the part of it that the used rows need.  On JAX and torch the gradient of a table is as
large as the table: there the time of the embedding layers themselves, run alone, forward and backward, is counted too.

Adam's update of a model with a table of 20,000 rows of 32 numbers, of which a batch used 930, took several times as
long with the table as without it on each backend (three turns on two busy cores; TensorFlow 4.6 and 0.9 ms).

## What to do

An optimizer that leaves unused rows alone: plain `SGD` for the table on TensorFlow; fewer rows (cut rare words, hash
them into buckets); a smaller dimension.  Moments that are not decayed for unused rows change what is learned, a little:
compare the loss.

## When it is not worth it

When the table is small, or a batch uses most of it; when the experiment shows no gain.

## Example

    keras.layers.Embedding(1_000_000, 64); model.compile("adam", loss)        # slow
    keras.layers.Embedding(50_000, 64); model.compile("adam", loss)           # fast: rare words share rows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fitdoctor import units
from fitdoctor.facts.layers import (
    EXPERIMENT,
    Layers,
    added,
    line_of,
    measured,
    outline,
    saved,
    update_in_the_step,
)
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Interval, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

TRIAL = "update without tables"
MOST = 0.5


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: how many rows a batch uses no source tells."""
    del source
    return iter(())


def place(source: SourceTree) -> Iterator[Site]:
    """Find where embedding tables are made."""
    return (call.site for call in source.calls() if call.name.split(".")[-1] == "Embedding")


def measure(
    training: Training, trials: Trials, model: StepModel, layers: Layers | None, source: SourceTree | None
) -> Verdict:
    """Take from the experiment what the tables take of the update."""
    tables = outline(training).get("embeddings") or []
    if not tables:
        return Absent("the model has no embedding table")
    parameters, holds = int(training.info.get("parameters") or 0), sum(int(each["params"]) for each in tables)
    if holds <= MOST * parameters:
        return Clear(f"embedding tables hold {units.percent(holds / parameters)} of the weights")
    if model.input_bound:
        return INPUT_BOUND
    costs = measured(layers, trials, model)
    _, trial = trials.ratio(TRIAL, experiment=EXPERIMENT)
    seen: Sequence[Mapping[str, Any]] = trial.detail.get("tables") or []
    used, rows = (sum(int(each[what]) for each in seen) for what in ("used", "rows"))
    if rows <= 0:
        return Absent("its embedding tables are not trained")
    through = added([update_in_the_step(saved(trial), costs, trial), *_gradients(training, costs, seen)])
    gain = through.scale(max(0.0, 1 - used / rows))
    if saved(trial).mid <= 0 or gain.mid <= 0:
        return Clear("without the embedding tables the update was measured to take just as long")
    change = Change("work", costs.stays(gain))
    largest = max(seen, key=lambda each: int(each["params"]))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"a batch uses {used:,} of {rows:,} rows, and {training.info.get('optimizer', 'the optimizer')} goes "
                f"through all of them: {units.duration(_within(through, costs).mid)} of a step of "
                f"{units.duration(costs.step.mid)}"
            ),
            site=line_of(source, "Embedding", str(largest["name"]), int(largest["rows"])),
            change=change,
            evidence={
                "rows": rows,
                "used": used,
                "params": holds,
                "update_ms": costs.optimizer.mid * 1e3,
                "gain_ms": {"low": gain.low * 1e3, "mid": gain.mid * 1e3, "high": gain.high * 1e3},
            },
        )
    ]


def _gradients(training: Training, costs: Layers, tables: Sequence[Mapping[str, Any]]) -> list[Interval]:
    """Return the seconds of embedding layers whose gradients are as large as their tables."""
    if training.backend == "tensorflow":
        return []  # only the used rows are in the gradient
    found = [costs.named(str(each["name"])) for each in tables]
    return [each.seconds for each in found if each is not None and each.seconds is not None]


def _within(seconds: Interval, costs: Layers) -> Interval:
    """Return seconds of work alone as seconds of a step."""
    return costs.share(seconds).scale(costs.step.mid)


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost, source
    return Fix("an optimizer that leaves unused rows alone, or a table with fewer rows", "may change")

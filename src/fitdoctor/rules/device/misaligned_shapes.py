"""Layers whose sides are no multiple of a tile keep the matrix units waiting.

## What is wrong

The matrix units of a GPU multiply tiles of 8 numbers a side (16-bit arithmetic, and TF32 on newer ones).  A layer of
1,001 units is computed as if it were wider, or by slower kernels that do without them.

## How it is established

The lab timed the layers one by one, and those with the most weights again with the next multiple of 8: more work in
less time is the gain, and it is measured, not assumed.  Libraries pad more and more by themselves, so mostly there is
none.  Only where the training computes on a GPU.

## What to do

Make hidden sizes, channels and vocabularies multiples of 8 (of 64 where it is free to choose).  The model gets slightly
larger, so train it anew.

## When it is not worth it

When the experiment shows no gain; for the last layer, whose width is the task's.

## Example

    keras.layers.Dense(1001, activation="relu")     # slow, on matrix units
    keras.layers.Dense(1008, activation="relu")     # fast
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.facts.layers import Layers, added, line_of, measured, outline, refused, tried
from fitdoctor.facts.placement import Placement
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

TRIAL = "sides of whole tiles"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: libraries pad by themselves, mostly."""
    del source
    return iter(())


def measure(
    training: Training,
    placement: Placement,
    trials: Trials,
    model: StepModel,
    layers: Layers | None,
    source: SourceTree | None,
) -> Verdict:
    """Add up what wider layers were measured to save."""
    if placement.why_not:
        return Absent(placement.why_not)
    misaligned = outline(training).get("misaligned") or {}
    if not misaligned:
        return Clear("the width of every hidden layer is a multiple of 8")
    if model.input_bound:
        return INPUT_BOUND
    costs = measured(layers, trials, model)
    found = [
        (name, gain.scale(here.count), here, trial)
        for name, gain, trial in tried(trials, TRIAL)
        if (here := costs.named(name)) is not None
    ]
    if not found:
        refused(trials, TRIAL)
        return Clear("layers whose width is no multiple of 8 take too little of a step to be tried otherwise")
    better = [each for each in found if each[1].low > 0]
    if not better:
        return Clear("with the next multiple of 8 layers were measured to take as long")
    gain = added([saved for _, saved, _, _ in better])
    name, _, largest, trial = max(better, key=lambda each: each[1].mid)
    change = Change("work", costs.stays(gain))
    widths = {each: (int(found.detail["width"]), int(found.detail["wider"])) for each, _, _, found in better}
    said = ", ".join(f"{each} of {width:,} as {wider:,}" for each, (width, wider) in widths.items())
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{said}: measured to take {units.duration(gain.mid)} less of a step of "
                f"{units.duration(costs.step.mid)}, though wider"
            ),
            site=line_of(source, largest.kind, name, int(trial.detail["width"])),
            change=change,
            evidence={"widths": {each: list(pair) for each, pair in widths.items()}, "tried": len(found)},
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    widths = cost.evidence.get("widths") or {}
    said = ", ".join(f"{wider} instead of {width}" for width, wider in widths.values())
    return Fix(f"widths that are multiples of 8: {said}", "may change")

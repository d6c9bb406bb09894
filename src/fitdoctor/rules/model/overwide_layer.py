"""One convolution is far wider than all others and takes most of the step.

## What is wrong

A convolution costs its filters times its inputs at every place of the picture.  One layer of 1024 filters in a network
whose others have 64 or less, at full resolution, costs more than the rest of the model together.

## How it is established

The lab timed every layer of the model alone on the very inputs it gets, forward and backward.  The layer must be at
least four times as wide as any other hidden convolution (widths usually double from one to the next).  It and the
layers that get all its numbers (activation, normalisation, pooling, up to the next layer that multiplies them) must
take most of the step as measured, a third of it at the very least.  All of these, the first with as many filters as the
next widest, were timed in turns with them as they are; that is the saving.

## What to do

Fewer filters; or shrink the picture first (strides, pooling) and widen as it gets smaller; or a 1x1 convolution before
it, or a separable one.  That is another model: whether it learns as well is for you to try.

## When it is not worth it

Where the step waits for its input, a lighter model only waits longer.  A wide layer that takes little of the step (at
the end, on few places) is as it should be.

## Example

    Conv2D(32, 3), Conv2D(1024, 3), Conv2D(64, 3)                          # slow: full size, 1024 filters
    Conv2D(32, 3), Conv2D(64, 3, strides=2), Conv2D(128, 3, strides=2)     # fast
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.layers import (
    LayerCost,
    Layers,
    added,
    instead,
    line_of,
    measured,
    outline,
    saved,
    scaled_as,
    tried,
)
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

TRIAL = "narrower layer"
MOST = 0.5
AT_LEAST = 1 / 3
"""Shares of a step: what was measured, and the low end of it."""


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: what a width costs depends on the places it is paid for."""
    del source
    return iter(())


def measure(
    training: Training, trials: Trials, model: StepModel, layers: Layers | None, source: SourceTree | None
) -> Verdict:
    """Take from the experiment what the width of the next widest would save."""
    found = outline(training)
    if not any(kind.startswith("Conv") for kind in found.get("kinds") or ()):
        return Absent("the model has no convolutions")
    widest = found.get("widest")
    if widest is None:
        return Clear("no hidden convolution is far wider than the others")
    if model.input_bound:
        return INPUT_BOUND
    name, width, other = str(widest["name"]), int(widest["width"]), int(widest["next"])
    costs = measured(layers, trials, model)
    here = costs.named(name)
    if here is None or here.seconds is None:
        reason = here.why if here else "it was not called"
        raise MissingEvidence(Gap(f"the time of layer {name}", reason, "give it more time with --budget"))
    narrower = [trial for each, _, trial in tried(trials, TRIAL) if each == name]
    handed_on = [str(each) for trial in narrower for each in trial.detail.get("handed_on") or ()]
    takes = added([_once(each) for each in (here, *filter(None, map(costs.named, handed_on)))])
    share = costs.share(takes)
    who = f"{name} has {width:,} filters"
    with_it = f"with {', '.join(handed_on)} it" if handed_on else "it"
    if share.mid <= MOST or share.low <= AT_LEAST:
        return Clear(f"{who}, and {with_it} takes {units.percent_range(share)} of a step, not most of it")
    trial = instead(trials, TRIAL, name)
    gain = saved(trial)
    if gain.mid <= 0:
        return Clear(f"with {other:,} filters {name} was measured to take just as long")
    change = Change("work", costs.stays(scaled_as(gain, takes, trial)))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{who}, the next widest {other:,}; {with_it} takes {units.percent_range(share)} of a step, and was "
                f"measured to be {units.duration(gain.mid)} faster with {other:,}"
            ),
            site=line_of(source, here.kind, name, width),
            change=change,
            evidence={
                "layer": name,
                "width": width,
                "next": other,
                "handed_on": handed_on,
                "params": here.params,
                "forward_flops": here.flops,
                "layer_ms": takes.mid * 1e3,
                "gain_ms": {"low": gain.low * 1e3, "mid": gain.mid * 1e3, "high": gain.high * 1e3},
            },
        )
    ]


def _once(cost: LayerCost) -> Interval:
    """Return the seconds of one of the layers that a cost stands for."""
    return (cost.seconds or Interval.exact(0.0)).scale(1 / max(1, cost.count))


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    return Fix(f"fewer filters in {cost.evidence.get('layer', 'this layer')}, or a smaller picture before it", "manual")

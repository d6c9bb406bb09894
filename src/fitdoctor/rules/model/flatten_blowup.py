"""A Dense layer after Flatten holds most of the weights and takes the most time.

## What is wrong

`Flatten` hands every place of every channel on as an input of its own.  The `Dense` layer behind it then has a weight
for each of them: 64 channels of 28 by 28 places and 256 units are 12.8 million weights, more than all convolutions
before it.  They are multiplied, their gradients computed, and every one of them updated in every step.

## How it is established

The lab timed every layer of the model alone on the very inputs it gets, forward and backward, and the optimizer's
update.  It then made the same `Dense` layer on the mean over all places (`GlobalAveragePooling`) and timed both in
turns.  All must hold:

- the layer holds more than half of the model's weights;
- with its part of the update it is the costliest layer of the model;
- what pooling saves of it, and of the update, is a visible part of the training.

## What to do

`GlobalAveragePooling2D()` (or `GlobalMaxPooling2D()`) in the place of `Flatten()`; or one more convolution with
strides, or pooling, before it.  That is another model: whether it learns as well is for you to try.

## When it is not worth it

Where the step waits for its input, a lighter model only waits longer.  Where the places matter as such (boards, maps),
`Flatten` may be what you need.  A `Flatten` right after the input is no such case and is not looked at.

## Example

    keras.layers.Flatten(), keras.layers.Dense(256)                       # slow
    keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(256)        # fast
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.layers import LayerCost, Layers, added, instead, line_of, measured, outline, saved
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

TRIAL = "pooled instead of flattened"
MOST = 0.5


_WIDE = 128
"""Units; the last layer of a classifier seldom has as many, and is no blow-up."""
SUSPICION = "may hold most of the weights and of the time: every position of the last convolution feeds it"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find Dense layers that follow a Flatten, which follows a convolution."""
    for file in source.files:
        if not any(file.calls_of("Flatten")):
            continue
        made = [call for call in file.calls() if call.name.startswith("keras.layers.")]
        convolved = False
        for before, call in itertools.pairwise(made):
            convolved = (
                "Average" not in before.name and "Global" not in before.name and (convolved or "Conv" in before.name)
            )
            if convolved and _kind(before) == "Flatten" and _kind(call) == "Dense" and (source.ran or _is_wide(call)):
                yield call.site


def _is_wide(call: FoundCall) -> bool:
    units = call.file.constant(call.argument(0, "units"))
    return isinstance(units, int) and units >= _WIDE


def _kind(call: FoundCall) -> str:
    return call.name.split(".")[-1]


def measure(
    training: Training, trials: Trials, model: StepModel, layers: Layers | None, source: SourceTree | None
) -> Verdict:
    """Take what pooling saves from the experiment."""
    flattened = outline(training).get("flattened")
    if flattened is None:
        return Absent("no Dense layer follows a Flatten after convolutions")
    name, holds = str(flattened["name"]), int(flattened["params"])
    parameters = int(training.info.get("parameters") or 0)
    if parameters <= 0:
        raise MissingEvidence(Gap("the weights of the model", "Keras could not count them", Gap.DOES_NOT_APPLY))
    if holds <= MOST * parameters:
        return Clear(f"the Dense layer after Flatten holds {units.percent(holds / parameters)} of the weights")
    if model.input_bound:
        return INPUT_BOUND
    costs = measured(layers, trials, model)
    here = costs.named(name)
    if here is None or here.seconds is None:
        raise MissingEvidence(Gap(f"the time of layer {name}", here.why if here else "it was not called", _MORE))
    costliest = max(costs.costs, key=lambda each: _with_update(costs, each, parameters).mid)
    share = costs.share(_with_update(costs, here, parameters))
    if costliest is not here:
        return Clear(f"{name} takes {units.percent_range(share)} of a step; {costliest.name} takes more")
    trial = instead(trials, TRIAL, name)
    gone = (holds - int(trial.detail.get("params_left") or 0)) / parameters
    gain = added([saved(trial), costs.optimizer.scale(max(0.0, gone))])
    if gain.mid <= 0:
        return Clear("pooled instead of flattened, the layer was measured to take just as long")
    change = Change("work", costs.stays(gain))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{name} holds {units.percent(holds / parameters)} of all weights and takes "
                f"{units.percent_range(share)} of a step with their update; on the mean over all places the same "
                f"layer was measured to be {units.duration(gain.mid)} faster"
            ),
            site=line_of(source, "Dense", name, int(flattened["units"])),
            change=change,
            evidence={
                "layer": name,
                "params": holds,
                "of_params": parameters,
                "flattened": trial.detail.get("shape"),
                "layer_ms": here.seconds.mid * 1e3,
                "update_ms": costs.optimizer.mid * 1e3,
                "gain_ms": {"low": gain.low * 1e3, "mid": gain.mid * 1e3, "high": gain.high * 1e3},
            },
        )
    ]


_MORE = "give it more time with --budget"


def _with_update(layers: Layers, layer: LayerCost, parameters: int) -> Interval:
    """Return seconds of a layer with its part of the optimizer's update, which goes by weights."""
    own = layer.seconds or Interval.exact(0.0)
    return added([own, layers.optimizer.scale(layer.count * layer.params / parameters)])


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost, source
    return Fix("pool over all places instead of flattening them: GlobalAveragePooling2D()", "manual")

"""An activation takes a visible part of the step.

## What is wrong

Some activations cost several passes over all numbers of a layer: `gelu`, `swish`, `elu`, `selu`, `softplus`, `mish`,
`PReLU` and their gradients.  Behind large convolutions without XLA, which would fuse those passes, that can be a good
part of the layer; behind most layers it is nothing.  Folklore knows both answers, so here it is measured.

## How it is established

The lab timed every layer of the model alone on the very inputs it gets, forward and backward.  Of the hidden layers
whose activation is neither `relu` nor none, the three that hand on the most were made again with `relu` and timed in
turns with the layer as it is; the difference is the saving, layer by layer, as often as the model has it.
Normalisation and dropout are not judged: nothing cheaper does the same.

## What to do

Try `relu` (or `leaky_relu`); or keep the activation and let XLA fuse it (`jit_compile=True`, see missing-xla).  Another
activation is another model: whether it learns as well is for you to try.

## When it is not worth it

When the experiment shows no gain, as behind most layers.

## Example

    keras.layers.Conv2D(64, 3, activation="gelu")    # slow, if measured so
    keras.layers.Conv2D(64, 3, activation="relu")    # fast
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fitdoctor import units
from fitdoctor.facts.layers import Layers, added, line_of, measured, outline, refused, tried
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

TRIAL = "plainer activation"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: most activations are free."""
    del source
    return iter(())


def measure(
    training: Training, trials: Trials, model: StepModel, layers: Layers | None, source: SourceTree | None
) -> Verdict:
    """Add up what plainer activations were measured to save."""
    activations = outline(training).get("activations") or {}
    if not activations:
        return Absent("every hidden layer has a plain activation, or none")
    if model.input_bound:
        return INPUT_BOUND
    costs = measured(layers, trials, model)
    found = [
        (name, gain.scale(here.count), here)
        for name, gain, _ in tried(trials, TRIAL)
        if (here := costs.named(name)) is not None
    ]
    if not found:
        refused(trials, TRIAL)
        return Clear(f"layers with {_named(activations.values())} take too little of a step to be tried with relu")
    better = [each for each in found if each[1].low > 0]
    if not better:
        return Clear(f"with relu instead of {_named(activations.values())} its layers were measured to take as long")
    gain = added([saved for _, saved, _ in better])
    first, _, largest = max(better, key=lambda each: each[1].mid)
    change = Change("work", costs.stays(gain))
    names = [name for name, _, _ in better]
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"with relu instead of {_named(activations[name] for name in names)}, {', '.join(names)} were "
                f"measured to take {units.duration(gain.mid)} less of a step of {units.duration(costs.step.mid)}"
            ),
            site=line_of(source, largest.kind, first),
            change=change,
            evidence={
                "layers": {
                    name: {"activation": activations[name], "gain_ms": each.mid * 1e3} for name, each, _ in better
                },
                "tried": len(found),
            },
        )
    ]


def _named(names: Iterable[object]) -> str:
    return ", ".join(sorted(set(map(str, names))))


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost, source
    return Fix("a plainer activation (relu), or XLA to fuse it", "manual")

"""An LSTM or GRU goes step by step through a generic loop.

## What is wrong

The backends have an implementation of LSTM and GRU for a whole sequence: cuDNN's on a GPU; PyTorch, and JAX for GRU,
have one for the CPU too, which multiplies the whole input at once before it walks along the sequence.  Keras takes it
only if the layer is as it wants it.  cuDNN wants `activation="tanh"`, `recurrent_activation="sigmoid"`, no
`recurrent_dropout`, no `unroll`, a bias, and a GRU with `reset_after`; the others want less.  Otherwise a generic loop
runs, without a word.

## How it is established

The run shows which settings of which layer stand in the way.  The lab made a twin of the model from its own
description, with these settings as the backend wants them, and trained both on the same batch, in turns.  No
experiment, no finding.  A mask on the input keeps a layer from it too (with TensorFlow on a GPU only if it is not
padded on the right); masks are not looked at.

## What to do

Change the settings that are named.  In place of `recurrent_dropout`, `dropout` regularises the input of each step and
does not stand in the way.  The model computes something else afterwards, so compare the learning.

Measured on a CPU with Keras 3.15: on PyTorch, without `recurrent_dropout`, a step of an LSTM over 24 steps took about a
fifth of its time; on JAX a GRU of that size gained nothing.

## When it is not worth it

When these very settings matter for the learning; where the backend has nothing better (TensorFlow on a CPU, JAX for
LSTM).

## Example

    keras.layers.LSTM(128, recurrent_dropout=0.2)    # slow
    keras.layers.LSTM(128, dropout=0.2)              # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.facts import spots
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "the backend's own recurrent kernel"
TRIAL = "recurrent kernel"
_WANTED = {"activation": ("tanh",), "recurrent_activation": ("sigmoid",), "unroll": (False,), "use_bias": (True,)}


SUSPICION = "may keep this layer off the fused kernel of a GPU: these arguments need the generic loop"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find LSTM and GRU layers whose arguments keep them from it."""
    for call in source.calls("keras.layers.LSTM", "keras.layers.GRU"):
        if _in_the_way(call):
            yield call.site


def _in_the_way(call: FoundCall) -> bool:
    wanted = {**_WANTED, **({"reset_after": (True,)} if call.name.endswith("GRU") else {})}
    for name, values in wanted.items():
        given = call.keyword(name)
        if isinstance(given, ast.Constant) and given.value not in values:
            return True
    dropout = call.keyword("recurrent_dropout")
    return dropout is not None and not (isinstance(dropout, ast.Constant) and not dropout.value)


def measure(training: Training, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment."""
    layers = training.info.get("recurrent")
    if not layers:
        return Absent("no LSTM or GRU layer was seen")
    if not any(each.get("other") for each in layers):
        kinds = " and ".join(sorted({each["kind"] for each in layers}))
        return Absent(f"{training.backend} has no other implementation of {kinds} on this device")
    off = {each["name"]: each["off"] for each in layers if each.get("off")}
    if not off:
        return Clear("its LSTM and GRU layers are as the backend's own implementation wants them")
    if model.input_bound:
        return INPUT_BOUND
    ratio, _ = trials.ratio(TRIAL, experiment=EXPERIMENT)
    said = "; ".join(f"{name}: {', '.join(reasons)}" for name, reasons in off.items())
    if ratio.mid >= 1:
        return Clear(f"as the backend wants them ({said}), a step was measured to take just as long")
    change = Change("work", ratio.clip(0.0, 1.0))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=f"without what stands in the way ({said}) a step took {units.percent_range(ratio)} of its time",
            change=change,
            evidence={"layers": off, "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high}},
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the settings."""
    settings = sorted({each.partition("=")[0] for reasons in cost.evidence["layers"].values() for each in reasons})
    edits = tuple(_default(source, settings)) if source is not None else ()
    return Fix(f"leave {', '.join(settings)} at Keras's default", "may change", edits=edits)


def _default(source: SourceTree, settings: list[str]) -> Iterator[Arguments]:
    """Take the settings away where they are given by name."""
    for call in source.calls("keras.layers.LSTM", "keras.layers.GRU"):
        given = tuple(name for name in settings if call.keyword(name) is not None)
        if given:
            yield Arguments(spots.spot(call), drop=given)

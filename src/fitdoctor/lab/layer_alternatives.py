"""What could stand in the place of a layer that stands out: a narrower one, pooling before it, a plainer activation.

Made from the layer's own configuration, with weights of its own, and timed on the very inputs; the model stays as is.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.host_lines import HostLines
from fitdoctor.lab.layer_calls import LayerCall, shape_of, tensors_of
from fitdoctor.probes.model_layers import ACTIVATIONS, TILE, params

MOST = 3
"""Activations tried, the largest first."""
ALIGNED = "sides of whole tiles"
NARROWER, POOLED, PLAINER = "narrower layer", "pooled instead of flattened", "plainer activation"
AT_ONCE, ONE_PASS = "all positions at once", "one pass of the framework"
_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
_MULTIPLY = frozenset({"Conv1D", "Conv2D", "Conv3D", "SeparableConv1D", "SeparableConv2D", "Dense"})
"""Layers that take numbers of any width and hand on their own."""
_HAND_ON = ACTIVATIONS | {
    "BatchNormalization", "DepthwiseConv1D", "DepthwiseConv2D", "GroupNormalization", "LayerNormalization",
    "ReLU", "UpSampling1D", "UpSampling2D", "ZeroPadding1D", "ZeroPadding2D",
}  # fmt: skip
"""Layers whose work is that of the width they are given."""


@dataclass(frozen=True, slots=True, eq=False)
class Alternative:
    """One layer that could stand in the place of others."""

    trial: str
    of: tuple[LayerCall, ...]
    make: Callable[[], LayerCall]
    detail: Mapping[str, Any] = field(default_factory=dict)
    lines: HostLines | None = None
    """Looks at Python while the layers run as they are."""
    about: int = -1
    """Which of the layers it is about."""

    @property
    def name(self) -> str:
        """The layer it is about."""
        return self.of[self.about].name


def alternatives(calls: Sequence[LayerCall], outline: Mapping[str, Any], *, gpu: bool = False) -> Iterator[Alternative]:
    """Yield what is worth trying for this model; `gpu`: its products are made by units that work in tiles."""
    if gpu:
        yield from _aligned(calls, outline.get("misaligned") or {})
    yield from _narrower(calls, outline.get("widest"))
    yield from _pooled(calls, outline.get("flattened"))
    yield from _plainer(calls, outline.get("activations") or {})
    yield from _at_once(calls)
    yield from _one_pass(calls, outline.get("host") or {})


def _one_pass(calls: Sequence[LayerCall], host: Mapping[str, str]) -> Iterator[Alternative]:
    """Yield for layers that may run Python one pass of the framework's own over the same numbers."""
    for call in calls:
        if call.name in host and tensors_of(call.args):
            yield Alternative(f"{ONE_PASS}: {call.name}", (call,), _rescaled(call), lines=HostLines())


def _rescaled(call: LayerCall) -> Callable[[], LayerCall]:
    def make() -> LayerCall:
        layer = sys.modules["keras"].layers.Rescaling(1.5, 0.5, name=f"{call.name}_one_pass")
        return _called(replace(call, layer=layer, args=(tensors_of(call.args)[0],), kwargs={}))

    return make


def _at_once(calls: Sequence[LayerCall]) -> Iterator[Alternative]:
    """Yield for recurrent layers as many multiplications, made at all positions at once."""
    for call in calls:
        ways = 2 if call.kind == "Bidirectional" else 1
        inner = call.layer.forward_layer if ways == 2 else call.layer
        gates = _GATES.get(type(inner).__name__)
        shape = shape_of(tensors_of(call.args)[0]) if gates else ()
        if gates and len(shape) == 3:
            detail = {"positions": shape[1], "units": int(inner.units)}
            make = _multiplied(call, shape, int(inner.units), ways * gates)
            yield Alternative(f"{AT_ONCE}: {call.name}", (call,), make, detail)


def _multiplied(call: LayerCall, shape: Sequence[int], units: int, gates: int) -> Callable[[], LayerCall]:
    """Return what makes one multiplication with all weights of a recurrent layer, at every position."""

    def make() -> LayerCall:
        keras = sys.modules["keras"]
        wide = keras.ops.full((*shape[:-1], shape[-1] + units), 0.1, dtype=call.layer.compute_dtype)
        dense = keras.layers.Dense(gates * units, name=f"{call.name}_at_once", dtype=call.layer.dtype_policy)
        return _called(replace(call, layer=dense, args=(wide,), kwargs={}))

    return make


def _narrower(calls: Sequence[LayerCall], widest: Mapping[str, Any] | None) -> Iterator[Alternative]:
    """Yield for the widest convolution a narrower one, with the layers that its width is handed on to."""
    for place, call in enumerate(calls):
        if widest is not None and call.name == widest["name"]:
            chain = _takes_its_width(calls[place:])
            handed_on = [each.name for each in chain[1:]]
            detail = {**{name: widest[name] for name in ("width", "next")}, "params": params(call.layer)}
            make = _chained(chain, filters=widest["next"])
            yield Alternative(f"{NARROWER}: {call.name}", chain, make, {**detail, "handed_on": handed_on}, about=0)


def _takes_its_width(calls: Sequence[LayerCall]) -> tuple[LayerCall, ...]:
    """Return the first of the calls with those that only hand its numbers on, and the one that multiplies them."""
    chain = [calls[0]]
    for before, call in itertools.pairwise(calls):
        given, handed = tensors_of((call.args, call.kwargs)), tensors_of(before.outputs)
        alone = len(given) == 1 and len(handed) == 1 and shape_of(given[0]) == shape_of(handed[0])
        multiplies = call.kind in _MULTIPLY
        if not alone or not (multiplies or call.kind in _HAND_ON or "Pooling" in call.kind or "Dropout" in call.kind):
            break
        chain.append(call)
        if multiplies:
            break
    return tuple(chain)


def _chained(chain: Sequence[LayerCall], **instead: Any) -> Callable[[], LayerCall]:
    """Return what makes the same layers again, one after the other, the first with one thing changed."""

    def make() -> LayerCall:
        keras = sys.modules["keras"]
        layers = []
        for call in chain:
            changed = instead if call is chain[0] else {}
            config = {**call.layer.get_config(), **changed, "name": f"{call.name}_other"}
            layers.append(type(call.layer).from_config(config))
        training = {"training": True} if any("training" in call.kwargs for call in chain) else {}
        model = keras.Sequential(layers, name=f"{chain[0].name}_chain")
        return _called(replace(chain[0], layer=model, kwargs=training))

    return make


def _aligned(calls: Sequence[LayerCall], misaligned: Mapping[str, int]) -> Iterator[Alternative]:
    """Yield for layers whose width is no multiple of a tile the same with the next one that is."""
    found = [call for call in calls if call.name in misaligned]
    for call in sorted(found, key=lambda each: -params(each.layer))[:MOST]:
        width = misaligned[call.name]
        wider = -(-width // TILE) * TILE
        name = "units" if hasattr(call.layer, "units") else "filters"
        make = _changed(call, **{name: wider})
        yield Alternative(f"{ALIGNED}: {call.name}", (call,), make, {"width": width, "wider": wider})


def _pooled(calls: Sequence[LayerCall], flattened: Mapping[str, Any] | None) -> Iterator[Alternative]:
    flat: LayerCall | None = None
    for call in calls:
        if flattened is not None and flat is not None and call.name == flattened["name"]:
            shape = shape_of(tensors_of(flat.args)[0])
            channels = shape[1] if getattr(flat.layer, "data_format", "") == "channels_first" else shape[-1]
            weights = params(call.layer)
            left = weights - (int(call.layer.kernel.shape[0]) - channels) * int(call.layer.units)
            detail = {"units": flattened["units"], "shape": list(shape[1:]), "params": weights, "params_left": left}
            yield Alternative(f"{POOLED}: {call.name}", (flat, call), _pooling(flat, call), detail)
            return
        if call.kind == "Flatten":
            flat = call


def _plainer(calls: Sequence[LayerCall], activations: Mapping[str, str]) -> Iterator[Alternative]:
    found = [call for call in calls if call.name in activations]
    sizes = {id(call): sum(_count(shape_of(each)) for each in tensors_of(call.outputs)) for call in found}
    for call in sorted(found, key=lambda each: -sizes[id(each)])[:MOST]:
        detail = {"activation": activations[call.name]}
        make = _relu(call) if call.kind in ACTIVATIONS else _changed(call, activation="relu")
        yield Alternative(f"{PLAINER}: {call.name}", (call,), make, detail)


def _count(shape: Sequence[int]) -> int:
    total = 1
    for side in shape:
        total *= side
    return total


def _changed(call: LayerCall, **instead: Any) -> Callable[[], LayerCall]:
    """Return what makes the same layer with one thing changed."""

    def make() -> LayerCall:
        config = {**call.layer.get_config(), **instead, "name": f"{call.name}_other"}
        return _called(replace(call, layer=type(call.layer).from_config(config)))

    return make


def _relu(call: LayerCall) -> Callable[[], LayerCall]:
    def make() -> LayerCall:
        layers = sys.modules["keras"].layers
        return _called(replace(call, layer=layers.ReLU(name=f"{call.name}_other", dtype=call.layer.dtype_policy)))

    return make


def _pooling(flat: LayerCall, dense: LayerCall) -> Callable[[], LayerCall]:
    """Return what makes the same Dense layer on the mean over all places."""

    def make() -> LayerCall:
        keras = sys.modules["keras"]
        sides = len(shape_of(tensors_of(flat.args)[0])) - 2
        if sides not in (1, 2, 3):
            raise CannotRun("what is flattened has no places to pool over")
        pool = getattr(keras.layers, f"GlobalAveragePooling{sides}D")
        config = {**dense.layer.get_config(), "name": f"{dense.name}_other"}
        policy, order = dense.layer.dtype_policy, getattr(flat.layer, "data_format", None)
        pooling = pool(name=f"{flat.name}_pool", data_format=order, dtype=policy)
        both = [pooling, type(dense.layer).from_config(config)]
        return _called(replace(flat, layer=keras.Sequential(both, name=f"{dense.name}_pooled"), kwargs={}))

    return make


def _called(call: LayerCall) -> LayerCall:
    """Call a new layer once: its weights are made then."""
    keras = sys.modules["keras"]
    try:
        with sys.modules["torch"].no_grad() if keras.config.backend() == "torch" else nullcontext():
            call.layer(*call.args, **call.kwargs)
    except Exception as error:
        raise CannotRun(f"{call.kind} cannot be made so: {type(error).__name__}", do="try it in the script") from error
    return call

"""What layers a model is made of: read from the layers themselves, once, before it trains."""

from __future__ import annotations

import types
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

_CONTAINERS = frozenset({"Sequential", "Functional", "Model"})
_CONVOLUTIONS = frozenset({"Conv1D", "Conv2D", "Conv3D"})
_RECURRENT = frozenset({"LSTM", "GRU", "SimpleRNN"})
_HOST = frozenset({"numpy_function", "py_function", "pure_callback", "io_callback", "numpy"})
_PLAIN = frozenset({"relu", "linear", "softmax", "sigmoid"})
"""Activations with nothing cheaper in their place: the cheapest there are, and those that outputs need."""
ACTIVATIONS = frozenset({"Activation", "ELU", "PReLU", "LeakyReLU"})
"""Layers that do nothing else."""
FAR_WIDER = 4
"""A convolution so many times as wide as any other of the model stands out; widths double from one to the next."""


TILE = 8
"""Matrix units multiply tiles of so many numbers a side, in 16 bits and, on newer ones, in TF32."""


def is_container(layer: Any) -> bool:
    """Tell whether a layer only calls others: models of Keras, and whatever has layers inside and is not Keras's."""
    if type(layer).__module__.split(".")[0] == "keras":
        return type(layer).__name__ in _CONTAINERS
    return bool(children(layer))


def children(layer: Any) -> Sequence[Any]:
    """Return the layers right inside a layer, in the order they were added."""
    found = getattr(layer, "layers", None)
    if found is None and hasattr(layer, "_flatten_layers"):
        found = layer._flatten_layers(include_self=False, recursive=False)
    return found if isinstance(found, (list, tuple)) else ()


def leaves(model: Any) -> Iterator[Any]:
    """Yield the layers that do the work, in the order they were added."""
    for layer in children(model):
        if is_container(layer):
            yield from leaves(layer)
        else:
            yield layer


_known: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def known(model: Any) -> dict[str, Any] | None:
    """Return the outline of a model, read once; None where its layers have no weights yet."""
    if not getattr(model, "built", False) and not _parts_are_built(model):
        return None
    if model not in _known:
        _known[model] = outline(model)
    return _known[model]


def _parts_are_built(model: Any) -> bool:
    """Tell whether all layers of a model have their weights: of one whose own `call` nobody ever calls, as a GAN's."""
    found = list(leaves(model))
    return bool(found) and all(getattr(each, "built", False) for each in found)


def outline(model: Any) -> dict[str, Any]:
    """Tell how many layers of which kind there are, and which of them stand out."""
    found = [layer for layer in leaves(model) if type(layer).__name__ != "InputLayer"]
    hidden = _hidden(found)
    every = model._flatten_layers() if hasattr(model, "_flatten_layers") else found
    return {
        "count": len(found),
        "kinds": dict(Counter(type(layer).__name__ for layer in found)),
        "flattened": _flattened(found),
        "widest": _widest(hidden),
        "embeddings": [
            {"name": layer.name, "rows": int(layer.input_dim), "params": params(layer)}
            for layer in found
            if type(layer).__name__ == "Embedding"
        ],
        "host": {layer.name: type(layer).__name__ for layer in every if calls_host(layer)},
        "recurrent": [layer.name for layer in found if is_recurrent(layer)],
        "misaligned": {layer.name: width for layer in hidden if (width := _width(layer)) % TILE},
        "activations": {layer.name: name for layer in hidden if (name := activation(layer)) is not None},
    }


def is_recurrent(layer: Any) -> bool:
    """Tell whether a layer goes through a sequence position by position."""
    return type(getattr(layer, "forward_layer", layer)).__name__ in _RECURRENT


def calls_host(layer: Any) -> bool:
    """Tell whether the `call` of a layer of the user's own names NumPy, or a function that runs Python in a graph."""
    function = getattr(type(layer), "call", None)
    code = getattr(function, "__code__", None)
    if code is None or type(layer).__module__.split(".")[0] == "keras":
        return False
    names = set(_names(code))
    scope = getattr(function, "__globals__", {})
    return bool(names & _HOST) or any(getattr(scope.get(name), "__name__", "") == "numpy" for name in names)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def params(layer: Any) -> int:
    """Return how many weights a layer has."""
    return sum(_size(weight.shape) for weight in getattr(layer, "weights", ()))


def _size(shape: Sequence[Any]) -> int:
    total = 1
    for side in shape:
        total *= int(side)
    return total


def _width(layer: Any) -> int:
    """Return how many numbers a layer that multiplies matrices hands on for each place; 0 for others."""
    if type(layer).__name__ == "Dense":
        return int(layer.units)
    return int(layer.filters) if type(layer).__name__ in _CONVOLUTIONS else 0


def _hidden(layers: Sequence[Any]) -> list[Any]:
    """Leave out the last layer with weights, and what follows: its width is the task's."""
    weighted = [place for place, layer in enumerate(layers) if getattr(layer, "weights", ())]
    return list(layers[: weighted[-1]]) if weighted else []


def _flattened(layers: Sequence[Any]) -> dict[str, Any] | None:
    """Return the Dense layer with the most weights among those that follow a Flatten after a convolution."""
    found = []
    convolved = flat = False
    for layer in layers:
        kind = type(layer).__name__
        if kind == "Dense" and flat:
            found.append({"name": layer.name, "units": int(layer.units), "params": params(layer)})
        convolved = convolved or "Conv" in kind
        # What has no weights between the two leaves the numbers as they are.
        flat = (kind == "Flatten" and convolved) or (flat and not getattr(layer, "weights", ()))
    return max(found, key=lambda each: int(each["params"])) if found else None


def _widest(layers: Sequence[Any]) -> dict[str, Any] | None:
    """Return the convolution that is far wider than any other, with the width of the next."""
    convolutions = [layer for layer in layers if type(layer).__name__ in _CONVOLUTIONS]
    if len(convolutions) < 2:
        return None
    *_, second, first = sorted(convolutions, key=lambda layer: int(layer.filters))
    if int(first.filters) < FAR_WIDER * int(second.filters):
        return None
    kind = type(first).__name__
    return {"name": first.name, "kind": kind, "width": int(first.filters), "next": int(second.filters)}


def activation(layer: Any) -> str | None:
    """Name a layer's activation where something cheaper could stand in its place."""
    kind = type(layer).__name__
    if kind in ACTIVATIONS - {"Activation"}:
        return kind
    if kind != "Activation" and kind != "Dense" and kind not in _CONVOLUTIONS:
        return None
    name = str(getattr(getattr(layer, "activation", None), "__name__", ""))
    return name if name and name not in _PLAIN else None

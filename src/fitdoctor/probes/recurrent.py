"""LSTM and GRU layers: which of their settings keep them from the backend's own implementation for a whole sequence.

With `use_cudnn="auto"` Keras asks the backend for it, and goes through a generic loop without a word where a layer is
not as the backend wants it.  What it wants depends on the backend and on the device (read from Keras 3.15):

    cuDNN                       everything below, on TensorFlow, PyTorch and, for LSTM, JAX
    PyTorch on a CPU            no recurrent dropout; GRU with reset_after
    JAX, GRU on any device      no recurrent dropout, no unroll, with reset_after
    TensorFlow, JAX LSTM        nothing of the kind on a CPU
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

ACTIVATIONS = {"activation": "tanh", "recurrent_activation": "sigmoid"}
WANTED = {"use_cudnn": True, "recurrent_dropout": False, "unroll": False, "use_bias": True, "reset_after": True}
"""What must be on or off; TensorFlow, JAX and torch agree on it."""
CUDNN = frozenset({*ACTIVATIONS, *WANTED})
MOST_LAYERS = 32


def layers(model: Any) -> list[Any]:
    """Return the LSTM and GRU layers of a model, those inside of other layers too."""
    kinds = sys.modules["keras"].layers
    return [each for each in model._flatten_layers() if isinstance(each, (kinds.LSTM, kinds.GRU))]


def describe(model: Any, gpu: bool) -> list[dict[str, Any]] | None:
    """Describe them: name, kind, whether there is another implementation, and the settings that stand in its way.

    None where the model does not tell.
    """
    try:
        return [_described(each, gpu) for each in layers(model)[:MOST_LAYERS]]
    except Exception:
        return None


def _described(layer: Any, gpu: bool) -> dict[str, Any]:
    wants = wanted(layer, gpu)
    return {"name": str(layer.name), "kind": _kind(layer), "other": bool(wants), "off": in_the_way(layer, gpu)}


def _kind(layer: Any) -> str:
    return "LSTM" if isinstance(layer, sys.modules["keras"].layers.LSTM) else "GRU"


def wanted(layer: Any, gpu: bool) -> frozenset[str]:
    """Return the settings that the backend's own implementation asks about; none where it has none."""
    backend = sys.modules["keras"].config.backend()
    if backend == "jax" and _kind(layer) == "GRU":
        return frozenset({"use_cudnn", "recurrent_dropout", "unroll", "reset_after"})
    if gpu:
        return CUDNN
    return frozenset({"use_cudnn", "recurrent_dropout", "reset_after"}) if backend == "torch" else frozenset()


def in_the_way(layer: Any, gpu: bool) -> list[str]:
    """Write down the settings of a layer that keep it from it, as a user would."""
    return [f"{name}={own}" for name, own in _others(layer) if name in wanted(layer, gpu)]


def _others(layer: Any) -> Iterator[tuple[str, Any]]:
    for name, value in ACTIVATIONS.items():
        own = getattr(getattr(layer.cell, name), "__name__", "a function of one's own")
        if own != value:
            yield name, own
    for name, on in WANTED.items():
        own = getattr(owner(layer, name), name, on)
        if bool(own) != on:
            yield name, own


def owner(layer: Any, name: str) -> Any:
    """Return the object that holds a setting: the layer or its cell."""
    return layer if name in ("use_cudnn", "unroll") else layer.cell

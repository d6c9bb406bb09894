"""What a layer computes, by its shapes: floating-point operations of a forward pass.  What is not known is None."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Shape = Sequence[int]

_GATHERS = frozenset({"Embedding", "Flatten", "Reshape", "Permute", "InputLayer", "Concatenate"})
"""Layers that move numbers and calculate nothing."""
_BY_KERNEL = frozenset({"Dense", "Conv1D", "Conv2D", "Conv3D"})
_TRANSPOSED = frozenset({"Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"})
_DEPTHWISE = frozenset({"DepthwiseConv1D", "DepthwiseConv2D"})
_SEPARABLE = frozenset({"SeparableConv1D", "SeparableConv2D"})
_RECURRENT = frozenset({"LSTM", "GRU", "SimpleRNN"})


@dataclass(frozen=True, slots=True)
class Shapes:
    """A layer as far as its shapes tell: inputs and outputs with the batch, weights in the layer's own order."""

    kind: str
    inputs: Sequence[Shape]
    outputs: Sequence[Shape]
    weights: Sequence[Shape]
    config: Mapping[str, Any] = field(default_factory=dict)


def flops(layer: Shapes) -> int | None:
    """Return the operations of one forward pass: two for a multiplication with its addition."""
    kind, weights = layer.kind, layer.weights
    if kind in _GATHERS:
        return 0
    if kind == "MultiHeadAttention":
        return _attention(layer)
    if not weights or not layer.inputs or not layer.outputs:
        return None
    into, out = layer.inputs[0], layer.outputs[0]
    if kind in _BY_KERNEL:
        return 2 * math.prod(out) * math.prod(weights[0][:-1])
    if kind in _TRANSPOSED:
        return 2 * math.prod(into) * math.prod(weights[0][:-1])
    if kind in _DEPTHWISE:
        return 2 * math.prod(out) * math.prod(weights[0][:-2])
    if kind in _SEPARABLE and len(weights) > 1:
        *window, channels, multiplier = weights[0]
        between = math.prod(out) // weights[1][-1] * channels * multiplier
        return 2 * between * math.prod(window) + 2 * math.prod(out) * channels * multiplier
    if kind in _RECURRENT and len(weights) > 1 and len(into) == 3:
        return 2 * into[0] * into[1] * (math.prod(weights[0]) + math.prod(weights[1]))
    return None


def _attention(layer: Shapes) -> int | None:
    """Count four projections, and two products of every query with every key, head by head."""
    heads, key = layer.config.get("num_heads"), layer.config.get("key_dim")
    if not heads or not key or not layer.inputs or not layer.outputs or any(len(each) != 3 for each in layer.inputs):
        return None
    value = layer.config.get("value_dim") or key
    query, values = layer.inputs[0], layer.inputs[min(1, len(layer.inputs) - 1)]
    keys = layer.inputs[2] if len(layer.inputs) > 2 else values
    projections = query[1] * heads * (key * query[2] + value * layer.outputs[0][2])
    projections += values[1] * heads * (key * keys[2] + value * values[2])
    return int(2 * query[0] * (projections + heads * query[1] * values[1] * (key + value)))

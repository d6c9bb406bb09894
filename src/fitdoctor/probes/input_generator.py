"""A plain Python generator handed to `fit`."""

from __future__ import annotations

from typing import Any


def describe(adapter: Any) -> dict[str, Any]:
    """Tell the sizes of its first batch, which Keras has already taken to learn the shapes."""
    first = getattr(adapter, "_first_batches", None)
    size = None
    if first:
        leaf = first[0]
        while isinstance(leaf, (list, tuple, dict)) and leaf:
            leaf = next(iter(leaf.values())) if isinstance(leaf, dict) else leaf[0]
        shape = getattr(leaf, "shape", None)
        size = int(shape[0]) if shape is not None and len(shape) else None
    return {"adapter": "generator", "batch_size": size}

"""NumPy arrays and tensors handed to `fit`."""

from __future__ import annotations

from typing import Any

from fitdoctor.probes.inputs import batch_size


def describe(adapter: Any) -> dict[str, Any]:
    """Tell sizes and types, never values."""
    arrays: list[dict[str, Any]] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            for item in value:
                walk(item)
        elif hasattr(value, "shape") and hasattr(value, "dtype"):
            arrays.append(
                {
                    "shape": [None if n is None else int(n) for n in value.shape],
                    "dtype": str(getattr(value.dtype, "name", value.dtype)),
                    "bytes": int(getattr(value, "nbytes", 0) or 0),
                }
            )

    walk(getattr(adapter, "_inputs", ()))
    return {
        "adapter": "arrays",
        "batch_size": batch_size(adapter),
        "samples": int(adapter._num_samples),
        "shuffle": str(getattr(adapter, "_shuffle", None)),
        "arrays": arrays,
    }

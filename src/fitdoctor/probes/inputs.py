"""Which kind of input feeds a training: one module per kind, found by the name of Keras's adapter."""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {
    "ArrayDataAdapter": "input_arrays",
    "TFDatasetAdapter": "input_tf",
    "PyDatasetAdapter": "input_pydataset",
    "GeneratorDataAdapter": "input_generator",
    "TorchDataLoaderAdapter": "input_torch",
    "GrainDatasetAdapter": "input_grain",
}


def describe(adapter: Any) -> dict[str, Any]:
    """Tell what a data adapter of Keras holds: kind, sizes and settings, never data."""
    for base in type(adapter).__mro__:
        name = _MODULES.get(base.__name__)
        if name is not None:
            module = importlib.import_module(f"fitdoctor.probes.{name}")
            found: dict[str, Any] = module.describe(adapter)
            return found
    return {"adapter": "other", "adapter_class": type(adapter).__name__}


def batch_size(adapter: Any) -> int | None:
    """Return the adapter's batch size where it knows one."""
    try:
        size = adapter.batch_size
        return None if size is None else int(size)
    except Exception:
        return None

"""Grain's datasets and loader handed to `fit`."""

from __future__ import annotations

from typing import Any

from fitdoctor.probes.inputs import batch_size


def describe(adapter: Any) -> dict[str, Any]:
    """Tell the kind of dataset and its workers."""
    dataset = adapter._dataset
    workers = getattr(getattr(dataset, "_multiprocessing_options", None), "num_workers", 0)
    return {
        "adapter": "Grain",
        "batch_size": batch_size(adapter),
        "dataset_class": type(dataset).__name__,
        "workers": int(workers or 0),
        "multiprocessing": bool(workers),
    }

"""`keras.utils.PyDataset`, with any number of workers, threads or processes."""

from __future__ import annotations

from typing import Any

from fitdoctor.probes.install import code_site


def describe(adapter: Any) -> dict[str, Any]:
    """Tell the class, its line and how its workers are set up."""
    dataset = adapter.py_dataset
    site = code_site(type(dataset).__getitem__)
    batches = dataset.num_batches
    return {
        "adapter": "PyDataset",
        "dataset_class": type(dataset).__name__,
        "dataset_site": [site.path, site.line] if site else None,
        "batches": None if batches is None else int(batches),
        "workers": int(dataset.workers),
        "multiprocessing": bool(dataset.use_multiprocessing),
        "queue": int(dataset.max_queue_size),
    }

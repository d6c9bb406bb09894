"""torch's `DataLoader` handed to `fit`."""

from __future__ import annotations

from typing import Any

from fitdoctor.probes.inputs import batch_size
from fitdoctor.probes.install import code_site


def describe(adapter: Any) -> dict[str, Any]:
    """Tell how the loader is set up."""
    loader = adapter._dataloader
    dataset = loader.dataset
    site = code_site(getattr(type(dataset), "__getitem__", None) or getattr(type(dataset), "__iter__", None))
    return {
        "adapter": "DataLoader",
        "batch_size": batch_size(adapter),
        "workers": int(loader.num_workers),
        "multiprocessing": loader.num_workers > 0,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": bool(loader.persistent_workers),
        "pin_memory": bool(loader.pin_memory),
        "shuffled": _shuffled(loader),
        "dataset_class": type(dataset).__name__,
        "dataset_site": [site.path, site.line] if site else None,
    }


def _shuffled(loader: Any) -> bool:
    """Tell whether random numbers may order the data: all but torch's own samplers in order may."""
    batches = type(loader.batch_sampler).__name__
    return type(loader.sampler).__name__ != "SequentialSampler" or batches not in ("BatchSampler", "NoneType")

"""Batches of another size, and one more prefetch: the data that `fit` is given, changed as its script could."""

from __future__ import annotations

import sys
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.probes.dataset_tf import name_of, static_int

KERAS_OWN = 32
"""The size of a batch of arrays where nothing is said."""


def change(arguments: dict[str, Any], size: int) -> int | None:
    """Give `fit` batches of this size; return the size they had, None where it is not `fit` that makes them."""
    data = arguments.get("x")
    if is_dataset(data):
        arguments["x"], own = rebatched(data, size)
        return own
    if hasattr(data, "shape") or isinstance(data, (list, tuple, dict)):
        own = int(arguments.get("batch_size") or KERAS_OWN)
        arguments["batch_size"] = size
        return own
    return None


def rebatched(dataset: Any, size: int) -> tuple[Any, int]:
    """Return the same pipeline with other batches, and how large they were; only where they are its last operator."""
    if name_of(dataset) == "Prefetch":
        below, own = rebatched(dataset._input_dataset, size)
        return below.prefetch(dataset._buffer_size), own
    found = static_int(dataset._batch_size) if name_of(dataset) == "Batch" else None
    if found is None:
        raise CannotRun(f"the pipeline does not end with a plain batch: {name_of(dataset)}", do="change the script")
    return dataset._input_dataset.batch(size, drop_remainder=dataset._drop_remainder), found


def prefetched(data: Any) -> Any:
    """Return a pipeline that ends with a prefetch."""
    if not is_dataset(data) or name_of(data) == "Prefetch":
        return data
    return data.prefetch(sys.modules["tensorflow"].data.AUTOTUNE)


def is_dataset(data: Any) -> bool:
    """Tell whether it is a `tf.data.Dataset`."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(data, tensorflow.data.Dataset)

"""Runs whose input is worth looking at."""

from __future__ import annotations

from typing import Any

from tests.captures.build import Run

SOURCE = """import tensorflow as tf

pictures = tf.data.Dataset.from_tensor_slices(paths).map(load).cache().shuffle(512)
both = tf.data.Dataset.zip((pictures, tf.data.Dataset.counter()))
data = both.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
data = data.map(lambda x, y: tf.numpy_function(enhance, [x, y], tf.float32))
data = data.batch(32)
model.fit(data, epochs=20)
"""


def at(line: int) -> list[Any]:
    return ["train.py", line]


DATASET: list[dict[str, Any]] = [
    {"op": "Batch", "inputs": [1], "batch": 32, "built": at(7)},
    {"op": "Map", "inputs": [2], "python": True, "stateful": True, "built": at(6), "site": at(6), "bytes": 27648},
    {"op": "ParallelMap", "parallel": -1, "inputs": [3], "random": "stateless", "built": at(5), "bytes": 27648},
    {"op": "Zip", "inputs": [5, 4], "built": at(4), "elements": 512, "bytes": 27656},
    {"op": "Range", "inputs": [], "elements": "infinite", "built": at(4), "bytes": 8},
    {"op": "Shuffle", "inputs": [6], "buffer": 512, "random": "unseeded", "built": at(3), "elements": 512},
    {"op": "Cache", "inputs": [7], "cache": "memory", "built": at(3), "elements": 512, "bytes": 27648},
    {"op": "Map", "inputs": [8], "built": at(3), "site": at(1), "elements": 512, "bytes": 27648},
    {"op": "TensorSlice", "inputs": [], "built": at(3), "elements": 512},
]
CHAIN = ("TensorSlice", "Map", "Cache", "Shuffle", "Zip", "ParallelMap", "Map", "Batch")
MS = (0.003, 1.5, 0.01, 0.013, 0.02, 0.62, 1.12, 36.0)
CORES = (1.0, 1.9, 1.0, 1.0, 1.1, 1.9, 1.4, 1.4)
PATHS = {"buffer_size": (8, 1e18, True)}
NODES: tuple[dict[str, Any], ...] = (
    {"name": "Prefetch", "bytes": 884736, "buffered": 0, "parameters": PATHS},
    {"name": "MapAndBatch", "ms": 35.0, "bytes": 884736, "parameters": {"parallelism": (2, 2, True)}},
    {"name": "ParallelMapV2", "per_step": 32, "ms": 1.1, "parameters": {"parallelism": (2, 2, True)}},
    {"name": "Zip", "per_step": 32, "inputs": [4, 8]},
    {"name": "Shuffle", "per_step": 32, "buffered": 512, "parameters": {"buffer_size": (512, 512, False)}},
    {"name": "MemoryCacheImpl", "per_step": 32},
    {"name": "ParallelMapV2", "per_step": 0.2, "ms": 3.0, "parameters": {"parallelism": (1, 2, True)}},
    {"name": "TensorSlice", "per_step": 0.2, "inputs": []},
    {"name": "Range", "per_step": 32, "inputs": []},
)


def pipeline(*, lab: bool = True, looked: bool = True, **changes: Any) -> Run:
    """A pipeline with everything in it, slower than its step."""
    run = Run(cores=2).fit(input_ms=30, compute_ms=8, epochs_planned=20, dataset=DATASET, **changes).source(SOURCE)
    run.pyfunc("enhance", wall_ms=25, cpu_ms=22)
    if looked:
        run.live(*NODES)
    if lab:
        run.trial("loader alone", changed_ms=36, cores=1.4).trial("cached batch", changed_ms=8, cores=1.5)
        for stage, (op, ms, cores) in enumerate(zip(CHAIN, MS, CORES, strict=True)):
            detail = {"unit": "ns per element", "stage": stage, "op": op, "of": len(CHAIN), "cores": cores}
            run.trial(f"prefix {stage}: {op}", changed_ms=ms, **detail)
    return run


MADE: dict[str, Any] = {
    "made": 100, "wall_ns": 6_000_000_000, "cpu_ns": 900_000_000, "asked": 100, "empty": 80, "early": 20,
    "depths": [0, 1, 0, 1], "starts": 2, "start_ns": 80_000_000, "stops": 2, "stop_ns": 220_000_000,
}  # fmt: skip


def loader(*, lab: bool = True, **changes: Any) -> Run:
    """A `PyDataset` with two threads."""
    info = {
        "adapter": "PyDataset", "workers": 2, "multiprocessing": False, "queue": 10, "batches": 100,
        "dataset_class": "Pictures", "dataset_site": at(4), "batch_size": 32, "loader": MADE, "cores_busy": 1.0,
        "samples": {"gil": {"looks": 10, "held": 4, "main": 1}},
    }  # fmt: skip
    run = Run("torch", cores=2).fit(input_ms=30, compute_ms=8, **{**info, **changes})
    if lab:
        run.trial("loader alone", changed_ms=36, cores=0.2).trial("cached batch", changed_ms=8, cores=1.5)
        line = {"path": "train.py", "line": 5, "symbol": "fetch", "share": 0.8}
        run.trial("hot lines", changed_ms=60, cpu_ns=9e6, lines=[line], loops=[])
    return run

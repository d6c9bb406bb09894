"""From one pass over the data to the next: as epochs, as Keras begins them, and as one epoch over repeated data."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.job import BARE, LONG_STEP_NS, Job, wait_for
from fitdoctor.rewrites.randomness import taken

PASSES = 5
_EXECUTIONS = 3
_LARGEST = 64 << 20
"""Bytes of the user's arrays that are repeated at most."""


class Passes:
    """Trains a few passes over a little of the user's data and times the way from each to the next."""

    def __init__(self, job: Job, step_ns: float, most: int) -> None:
        self._job = job
        per_execution = job.own.steps_per_execution or 1
        executions = 1 if step_ns * per_execution * PASSES > LONG_STEP_NS else _EXECUTIONS
        steps = min(executions * per_execution, most)
        self._short, self._long, steps = _arrays(job, steps) if _of_arrays(job) else (*_datasets(job, steps), steps)
        self._executions = max(1, -(-steps // per_execution))
        self.block_seconds = 2 * PASSES * steps * step_ns / 1e9

    def as_epochs(self) -> float:
        """Return nanoseconds from the last step of an epoch to the first of the next."""
        return self._train(self._short, PASSES)

    def as_one(self) -> float:
        """Return nanoseconds from the last step of a pass to the first of the next, in one long epoch."""
        return self._train(self._long, 1)

    def _train(self, data: dict[str, Any], epochs: int) -> float:
        job = self._job
        put_back = taken(job.given.get("x"))
        stamps = _Stamps(job.model.train_function, job.backend, self._executions)
        try:
            with job._as(BARE):
                job.model.train_function = stamps.run
                job.model.fit(**data, epochs=epochs, verbose=0, callbacks=[])
        finally:
            put_back()
        return stamps.between()


class _Stamps:
    """Stands in for a train function and keeps when each pass began and ended."""

    def __init__(self, function: Callable[..., Any], backend: str, each: int) -> None:
        self._function = function
        self._backend = backend
        self._each = each
        self._count = 0
        self._starts: list[int] = []
        self._ends: list[int] = []

    def run(self, *args: Any) -> Any:
        start = time.perf_counter_ns()
        # Raises where the data does not say how long it is: then no step was made.
        result = self._function(*args)
        if self._count % self._each == 0:
            self._starts.append(start)
        self._count += 1
        if self._count % self._each == 0:
            # What was only launched is no part of the way to the next pass.
            wait_for(self._backend, result)
            self._ends.append(time.perf_counter_ns())
        return result

    def between(self) -> float:
        if self._count != PASSES * self._each:
            raise CannotRun("the passes were not as long as expected", do="try it in the script: data.repeat(10)")
        return float(statistics.median(b - a for a, b in zip(self._ends, self._starts[1:], strict=False)))


def _of_arrays(job: Job) -> bool:
    from keras import tree

    leaves = [leaf for leaf in tree.flatten((job.given.get("x"), job.given.get("y"))) if leaf is not None]
    numpy = sys.modules["numpy"]
    return bool(leaves) and all(isinstance(leaf, numpy.ndarray) for leaf in leaves)


def _arrays(job: Job, steps: int) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Take the first batches of the user's arrays, and the same repeated."""
    import numpy as np
    from keras import tree

    size = job.batch_rows
    names = [name for name in ("x", "y", "sample_weight") if job.given.get(name) is not None]
    given = {name: job.given[name] for name in names}
    available = len(tree.flatten(given)[0]) // size
    if available < 1 or job.given.get("steps_per_epoch"):
        raise CannotRun("an epoch is no pass over the arrays", do="try it in the script with more steps_per_epoch")
    steps = min(steps, available)
    first = tree.map_structure(lambda leaf: leaf[: steps * size], given)
    if PASSES * sum(leaf.nbytes for leaf in tree.flatten(first)) > _LARGEST:
        raise CannotRun("the batches are too large to be repeated", do="try it in the script: data.repeat(10)")
    many = tree.map_structure(lambda leaf: np.concatenate([leaf] * PASSES), first)
    same = {
        "batch_size": size, "shuffle": job.given.get("shuffle", True), "class_weight": job.given.get("class_weight"),
    }  # fmt: skip
    return {**first, **same}, {**many, **same}, steps


def _datasets(job: Job, steps: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take the first batches of the user's dataset, and the same repeated; of endless data, epochs of both lengths."""
    data = job.given.get("x")
    tf = sys.modules.get("tensorflow")
    if tf is None or not isinstance(data, tf.data.Dataset):
        raise CannotRun("longer epochs are tried with arrays and tf.data alone", do="try it in the script")
    same = {"class_weight": job.given.get("class_weight")}
    if job.given.get("steps_per_epoch"):
        endless = data.repeat()
        return {"x": endless, "steps_per_epoch": steps, **same}, {
            "x": endless, "steps_per_epoch": PASSES * steps, **same
        }  # fmt: skip
    few = data.take(steps)
    return {"x": few, **same}, {"x": few.repeat(PASSES), **same}

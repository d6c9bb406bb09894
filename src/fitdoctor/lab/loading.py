"""The user's loader without the training: pulled from its start, and from one epoch to the next."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.job import BETWEEN_SECONDS, BLOCK_SECONDS, Job
from fitdoctor.rewrites.randomness import taken

_FEWEST = 3


@contextlib.contextmanager
def loading(job: Job, x: Any = None) -> Iterator[Iterator[Any]]:
    """Begin the user's data, or `x` in its place, and end its workers afterwards: what they still do would count later.

    The workers' start counts to the first batch: a queue that they filled before would look like speed.
    """
    put_back = taken(job.given.get("x") if x is None else x)
    adapter = job._adapter(x)
    try:
        yield iter(job._epochs(adapter)())
    finally:
        end_workers(adapter)
        put_back()


def pull(job: Job, x: Any = None, seconds: float = BLOCK_SECONDS) -> float:
    """Pull batches for a while, from the start of the workers, and return nanoseconds per batch."""
    count = spent = 0
    while spent < seconds * 1e9 or count < _FEWEST:
        before = count
        with loading(job, x) as batches:
            while spent < seconds * 1e9 or count < _FEWEST:
                start = time.perf_counter_ns()
                try:
                    next(batches)
                except StopIteration:
                    break
                spent += time.perf_counter_ns() - start
                count += 1
        if count == before:
            raise CannotRun(
                "the data is used up: it cannot be begun anew", do="try it with data that can be read twice"
            )
    return spent / count


def end_workers(adapter: Any) -> None:
    """End the workers of a `PyDataset` as Keras does between epochs, and drop what they had prepared."""
    enqueuer = getattr(adapter, "enqueuer", None)
    if enqueuer is not None:
        enqueuer.stop()
        with enqueuer.ready_queue.mutex:
            enqueuer.ready_queue.queue.clear()


def begun_anew(job: Job, adapter: Any, epoch: Callable[[], Any]) -> Iterator[Any]:
    """Go from one epoch to the next, as Keras does; return the batches.

    It makes an iterator when an epoch ends and, where no `steps_per_epoch` is given, another one when the next begins:
    workers that stay then make batches which nobody takes, and are waited for.
    """
    end_workers(adapter)
    if adapter.num_batches is not None and not job.given.get("steps_per_epoch"):
        iter(epoch())
    return iter(epoch())


class NextEpoch:
    """Goes from one epoch to the next, a while after the last batch: the workers have nothing left to do."""

    def __init__(self, job: Job, x: Any = None) -> None:
        self._put_back = taken(job.given.get("x") if x is None else x)
        self._adapter = job._adapter(x)
        self._epoch = job._epochs(self._adapter)
        self._job = job
        self._under_way = iter(self._epoch())
        next(self._under_way, None)

    def go(self) -> float:
        """Return the nanoseconds until the first batch of the next epoch is there."""
        time.sleep(BETWEEN_SECONDS)
        start = time.perf_counter_ns()
        self._under_way = begun_anew(self._job, self._adapter, self._epoch)
        next(self._under_way, None)
        return float(time.perf_counter_ns() - start)

    def end(self) -> None:
        """End the workers and put the generators that the loader drew from back."""
        self._under_way = iter(())
        end_workers(self._adapter)
        self._put_back()

"""From one epoch to the next: workers ended and started anew, as Keras and torch do, against workers that stay."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import FELT, Comparison, Seen
from fitdoctor.lab.job import Job, Offer
from fitdoctor.lab.loading import NextEpoch, loading
from fitdoctor.rewrites.loader_copies import is_dataloader, is_pydataset, with_processes

NAME = "workers kept between epochs"
TRAINS = False
OFFERS = True
_WARM, _TIMED = 3, 3


def worth(seen: Seen) -> float:
    """Weigh trainings of several epochs whose workers end with each."""
    workers = int(seen.info.get("workers") or 0)
    pool = seen.info.get("adapter") == "PyDataset" and (workers > 1 or seen.info.get("multiprocessing"))
    loader = seen.info.get("adapter") == "DataLoader" and workers > 0 and not seen.info.get("persistent_workers")
    if not (pool or loader) or int(seen.info.get("epochs") or 1) < 2:
        return 0.0
    return 8.0 if seen.shares["between epochs"] > FELT else 1.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Go from epoch to epoch both ways."""
    del seen
    data: Any = job.given.get("x")
    detail: dict[str, Any] = {"unit": "ns per epoch"}
    if is_dataloader(data):
        count = int(data.num_workers)
        loader = with_processes(data, count, keep=True)
        anew, kept = NextEpoch(job, with_processes(data, count, keep=False)), NextEpoch(job, loader)
        late = functools.partial(_ended, (kept, anew), loader)
        job.offers.append(
            Offer("workers kept", "worker-churn", lambda whole: {"x": with_processes(data, count, keep=True)})
        )
        yield Comparison("workers kept", kept.go, anew.go, detail, late)
    elif is_pydataset(data):
        # Keras keeps none: the next batch of the same epoch is what a longer epoch would have in this place.
        anew = NextEpoch(job)
        late = functools.partial(_ended, (anew,))
        yield Comparison("workers kept", functools.partial(_next_batch, job), anew.go, detail, late)
    else:
        raise CannotRun("this loader has no workers that end")


def _ended(epochs: tuple[NextEpoch, ...], kept: Any = None) -> dict[str, Any]:
    """End all workers, those that were kept too."""
    if kept is not None:
        iterator, kept._iterator = kept._iterator, None
        if iterator is not None:
            iterator._shutdown_workers()
    for each in epochs:
        each.end()
    return {}


def _next_batch(job: Job) -> float:
    """Return the nanoseconds that a batch takes in the middle of an epoch."""
    with loading(job) as batches:
        for _ in range(_WARM):
            next(batches, None)
        start = time.perf_counter_ns()
        for _ in range(_TIMED):
            next(batches, None)
        return (time.perf_counter_ns() - start) / _TIMED

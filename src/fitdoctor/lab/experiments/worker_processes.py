"""A PyDataset whose batches are made in processes, each seeded on its own, in turns with its own workers."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import Job, Offer
from fitdoctor.lab.loading import pull
from fitdoctor.rewrites.loader_copies import is_pydataset
from fitdoctor.rewrites.processes import in_processes
from fitdoctor.rewrites.randomness import unchanged

NAME = "worker processes"
TRAINS = False
OFFERS = True
TRY_SECONDS = 15.0
"""A forked process can block on a lock that nobody gives back: after so long without a batch it is ended."""
WAITS = 0.5
"""A batch that spends less than this of its time on the CPU waits for something: threads do for that."""
LOOKS, LOOK_SECONDS = 5, 1.0


def worth(seen: Seen) -> float:
    """Weigh the wait for input."""
    mine = seen.info.get("adapter") == "PyDataset" and not seen.info.get("multiprocessing")
    return 0.1 + seen.shares["fetch"] if mine else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Try as many processes as there are cores, and two."""
    del seen
    data: Any = job.given.get("x")
    if not is_pydataset(data) or data.use_multiprocessing:
        raise CannotRun("the input is no PyDataset without processes")
    wall, cpu = making(data)
    if cpu < WAITS * wall:
        raise CannotRun("making a batch waits more than it computes: threads do for that")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for count in sorted({2, max(2, min(cores, 8))}):
        dataset, crew = in_processes(data, count, limit=TRY_SECONDS)
        # On this thread, where nobody else waits: one that blocks is a gap, nothing more.
        crew.make(0, 0)
        detail = {"unit": "ns per batch", "processes": count, "own": max(1, int(data.workers)), "start_s": crew.start_s}
        # They end with the comparison, and start again when the rehearsal asks them.
        job.offers.append(Offer(f"processes={count}", "gil-bound-workers", _given(dataset), end=crew.stop))
        changed, as_is = functools.partial(pull, job, dataset), functools.partial(pull, job)
        yield Comparison(f"processes={count}", changed, as_is, detail, late=functools.partial(_ended, crew))


def _given(dataset: Any) -> Callable[[bool], dict[str, Any]]:
    return lambda whole: {"x": dataset}


def making(data: Any) -> tuple[float, float]:
    """Return the seconds that a batch takes on this thread, and of its CPU time: where it got most of a core.

    On a machine that others use a batch waits for a core too; that is no waiting of its own.
    """
    tries = []
    with unchanged(data):
        data[0]
        until = time.perf_counter() + LOOK_SECONDS
        for _ in range(LOOKS):
            start, start_cpu = time.perf_counter(), time.thread_time()
            data[0]
            tries.append((time.perf_counter() - start, time.thread_time() - start_cpu))
            if time.perf_counter() > until:
                break
    return max(tries, key=lambda each: each[1] / max(each[0], 1e-9))


def _ended(crew: Any) -> dict[str, Any]:
    crew.stop()
    return {}

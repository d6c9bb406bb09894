"""The loader with more workers: threads for a PyDataset, processes for a DataLoader."""

from __future__ import annotations

import functools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.experiments.loader_alone import Puller
from fitdoctor.lab.job import Job

NAME = "more workers"
TRIED = (1, 2, 4, 8)
PROCESSES_TRIED = (2, 4, 8)
_COPIED = (
    "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator", "prefetch_factor",
)  # fmt: skip
"""What a DataLoader is made with and keeps, beside its dataset, its sampler and its workers."""


def worth(seen: Seen) -> float:
    """Weigh the wait for input."""
    if seen.info.get("adapter") not in ("PyDataset", "DataLoader"):
        return 0.0
    return 0.1 + seen.shares["fetch"]


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Try each number of workers that the user does not have."""
    del seen
    data = job.given.get("x")
    tried: tuple[int, ...]
    if isinstance(data, sys.modules["keras"].utils.PyDataset):
        own, tried, make = max(1, int(data.workers)), TRIED, _threads
    elif "torch" in sys.modules and isinstance(data, sys.modules["torch"].utils.data.DataLoader):
        own, tried, make = int(data.num_workers), PROCESSES_TRIED, _processes
    else:
        raise CannotRun("this loader's workers cannot be changed from outside", do="try more of them in the script")
    for count in tried:
        if count != own:
            detail = {"unit": "ns per batch", "workers": count, "own": own}
            starts: list[float] = []
            changed, as_is = make(job, data, count, starts), make(job, data, own, [])
            late = functools.partial(_started, starts)
            yield Comparison(f"workers={count}", changed, as_is, detail, late=late)


def _started(starts: list[float]) -> dict[str, Any]:
    """Return how long workers took to start, as detail of a trial."""
    return {"start_s": statistics.median(starts)} if starts else {}


def _threads(job: Job, data: Any, count: int, starts: list[float]) -> Callable[[], float]:
    """Pull a block with so many threads, from their start: a queue they filled before would look like speed."""
    del starts

    def block() -> float:
        own, data.workers = data.workers, count
        try:
            return Puller(job.loader).block()
        finally:
            data.workers = own

    return block


def _processes(job: Job, data: Any, count: int, starts: list[float]) -> Callable[[], float]:
    """Pull a block with so many processes, once they have started and what they prepared meanwhile was drawn.

    Starting them takes long, but a loader can keep them (`persistent_workers`): that is paid once, and kept apart.
    """
    generator = data.generator

    def block() -> float:
        state = generator.get_state() if generator is not None else None
        try:
            begun = time.perf_counter()
            puller = Puller(lambda: job.loader(_with_workers(data, count)))
            puller.skip(1)
            starts.append(time.perf_counter() - begun)
            puller.skip(count * (data.prefetch_factor or 2) - 1)
            return puller.block()
        finally:
            if generator is not None:
                generator.set_state(state)

    return block


def _with_workers(data: Any, count: int) -> Any:
    """Make the same DataLoader with another number of workers."""
    settings = {name: getattr(data, name, None) for name in _COPIED}
    if count == 0:
        settings.update(prefetch_factor=None, multiprocessing_context=None, timeout=0)
    if data.batch_sampler is not None:
        settings["batch_sampler"] = data.batch_sampler
    else:
        settings.update(batch_size=data.batch_size, drop_last=data.drop_last)
        if hasattr(data.dataset, "__getitem__"):
            settings["sampler"] = data.sampler
    return type(data)(data.dataset, num_workers=count, **settings)

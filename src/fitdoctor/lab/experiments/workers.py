"""The loader with more workers: threads for a PyDataset, processes for a DataLoader."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.experiments.loader_alone import Puller
from fitdoctor.lab.job import Job, Offer
from fitdoctor.lab.loading import pull
from fitdoctor.rewrites.loader_batches import prepared
from fitdoctor.rewrites.loader_copies import in_threads, is_dataloader, is_pydataset, with_processes

NAME = "more workers"
TRAINS = False
OFFERS = True
TRIED = (1, 2, 4, 8)
PROCESSES_TRIED = (2, 4, 8)


def worth(seen: Seen) -> float:
    """Weigh the wait for input."""
    if seen.info.get("adapter") not in ("PyDataset", "DataLoader"):
        return 0.0
    return 0.1 + seen.shares["fetch"]


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Try each number of workers that the user does not have."""
    del seen
    data: Any = job.given.get("x")
    tried: tuple[int, ...]
    if is_pydataset(data):
        own, tried, make = max(1, int(data.workers)), TRIED, _threads
        if data.use_multiprocessing:
            raise CannotRun("its workers are processes already")
    elif is_dataloader(data):
        own, tried, make = int(data.num_workers), PROCESSES_TRIED, _processes
    else:
        raise CannotRun("this loader's workers cannot be changed from outside", do="try more of them in the script")
    for count in tried:
        if count != own:
            detail = {"unit": "ns per batch", "workers": count, "own": own}
            starts: list[float] = []
            changed, as_is = make(job, data, count, starts), make(job, data, own, [])
            late = functools.partial(started, starts)
            job.offers.append(Offer(f"workers={count}", "idle-workers", functools.partial(_given, data, count)))
            yield Comparison(f"workers={count}", changed, as_is, detail, late=late)


def _given(data: Any, count: int, whole: bool) -> dict[str, Any]:
    """Return the loader with so many workers, as the fix would have it in the source."""
    del whole
    if is_pydataset(data):
        return {"x": in_threads(data, count)}
    return {"x": with_processes(data, count, keep=True, in_order=False)}


def started(starts: list[float]) -> dict[str, Any]:
    """Return how long workers took to start, as detail of a trial."""
    return {"start_s": statistics.median(starts)} if starts else {}


def _threads(job: Job, data: Any, count: int, starts: list[float]) -> Callable[[], float]:
    """Pull a block with so many threads, from their start."""
    del starts
    return functools.partial(pull, job, in_threads(data, count))


def _processes(job: Job, data: Any, count: int, starts: list[float]) -> Callable[[], float]:
    """Pull a block with so many processes, once they have started and what they prepared meanwhile was drawn.

    Starting them takes long, but a loader can keep them (`persistent_workers`): that is paid once, and kept apart.
    """
    generator = data.generator

    def block() -> float:
        state = generator.get_state() if generator is not None else None
        try:
            begun = time.perf_counter()
            loader = with_processes(data, count, keep=False)
            puller = Puller(job.passes(loader))
            puller.skip(1)
            starts.append(time.perf_counter() - begun)
            puller.skip(prepared(loader) - 1)
            return puller.block()
        finally:
            if generator is not None:
                generator.set_state(state)

    return block

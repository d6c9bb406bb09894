"""The loader with more workers: threads for a PyDataset, processes for a DataLoader."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.experiments.loader_alone import Puller
from fitdoctor.lab.job import Job

NAME = "more workers"
TRIED = (1, 2, 4, 8)


def worth(seen: Seen) -> float:
    """Weigh the wait for input."""
    if seen.info.get("adapter") not in ("PyDataset", "DataLoader"):
        return 0.0
    return 0.1 + seen.shares["fetch"]


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Try each number of workers that the user does not have."""
    del seen
    data = job.given.get("x")
    if not isinstance(data, sys.modules["keras"].utils.PyDataset):
        raise CannotRun("a DataLoader's workers are fixed when it is made", do="try num_workers in the script")
    own = max(1, int(data.workers))
    for count in TRIED:
        if count != own:
            detail = {"unit": "ns per batch", "workers": count, "own": own}
            yield Comparison(f"workers={count}", _with(job, data, count), _with(job, data, own), detail)


def _with(job: Job, data: Any, count: int) -> Callable[[], float]:
    """Pull a block with so many workers, from their start: a queue they filled before would look like speed."""

    def block() -> float:
        own, data.workers = data.workers, count
        try:
            return Puller(job.loader).block()
        finally:
            data.workers = own

    return block

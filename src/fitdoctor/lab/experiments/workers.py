"""The loader with more workers: threads for a PyDataset, processes for a DataLoader."""

from __future__ import annotations

import contextlib
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
    data = job.given.get("x")
    keras = sys.modules["keras"]
    if isinstance(data, keras.utils.PyDataset):
        own = max(1, int(data.workers))
        with_workers: Callable[[int], Any] = lambda count: _pydataset(job, count)  # noqa: E731
    else:
        raise CannotRun("a DataLoader's workers are fixed when it is made", do="try num_workers in the script")
    del seen
    as_it_is = Puller(job)
    as_it_is.block()
    for count in TRIED:
        if count == own:
            continue
        changed = with_workers(count)
        changed()
        detail = {"unit": "ns per batch", "workers": count, "own": own}
        yield Comparison(f"workers={count}", changed, as_it_is.block, detail)


def _pydataset(job: Job, count: int) -> Callable[[], float]:
    data: Any = job.given["x"]

    @contextlib.contextmanager
    def several() -> Iterator[None]:
        own, data._workers = data._workers, count
        try:
            yield
        finally:
            data._workers = own

    with several():
        puller = Puller(job)

    def block() -> float:
        with several():
            return puller.block()

    return block

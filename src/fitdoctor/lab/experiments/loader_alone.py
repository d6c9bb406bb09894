"""The loader without the training: what input alone can do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BLOCK_SECONDS, Job

NAME = "the loader alone"
_FEWEST = 3


def worth(seen: Seen) -> float:
    """Return almost as much as for the cached batch."""
    del seen
    return 9.0


class Puller:
    """Pulls batches in blocks, beginning the data anew where it ends."""

    def __init__(self, begin: Callable[[], Iterator[Any]]) -> None:
        self._begin = begin
        self._batches = begin()

    def skip(self, count: int) -> None:
        """Draw batches that do not count, as far as the data goes."""
        for _ in range(count):
            if next(self._batches, None) is None:
                self._batches = self._begin()
                return

    def block(self, seconds: float = BLOCK_SECONDS) -> float:
        """Pull batches for a while and return nanoseconds per batch."""
        count, spent, begun = 0, 0, 0
        while spent < seconds * 1e9 or count < _FEWEST:
            start = time.perf_counter_ns()
            try:
                next(self._batches)
            except StopIteration:
                begun += 1
                if begun > 1 and count == 0:
                    raise CannotRun(
                        "the data is used up: it cannot be begun anew", do="try it with data that can be read twice"
                    ) from None
                self._batches = self._begin()
                continue
            spent += time.perf_counter_ns() - start
            count += 1
        return spent / count


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Pull batches and throw them away."""
    del seen
    puller = Puller(job.loader)
    puller.block()
    yield Comparison("loader alone", puller.block, detail={"unit": "ns per batch"})

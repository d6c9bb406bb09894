"""The loader without the training: what input alone can do."""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import Job
from fitdoctor.rewrites.pulling import Puller as Puller

NAME = "the loader alone"
TRAINS = False
FIRST = True


def worth(seen: Seen) -> float:
    """Return almost as much as for the cached batch."""
    del seen
    return 9.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Pull batches and throw them away."""
    puller = Puller(job.passes())
    puller.block()
    yield Comparison("loader alone", puller.block, detail={"unit": "ns per batch"}, beside_ns=seen.step_ns)

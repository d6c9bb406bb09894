"""One batch, again and again: what the step takes when it never waits for data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fitdoctor.lab.bench import CACHED_BATCH, Comparison, Seen
from fitdoctor.lab.job import Job

NAME = "one cached batch"
FIRST = True


def worth(seen: Seen) -> float:
    """Return more than anything else: all what-ifs rest on it."""
    del seen
    return 10.0


def learned(job: Job, seen: Seen) -> Seen:
    """Tell what the input really takes of a step: TensorFlow fetches inside it, and elsewhere they share the cores."""
    alone = job.results.get(CACHED_BATCH)
    if alone is None:
        return seen
    fetch, run = seen.shares["fetch"], seen.shares["run"]
    hidden = min(run, max(0.0, 1 - alone / seen.step_ns - fetch))
    return replace(seen, shares={**seen.shares, "fetch": fetch + hidden, "run": run - hidden})


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Run the job as it is, on one batch."""
    del seen
    yield Comparison(CACHED_BATCH, job.block, detail={"rows": job.batch_rows})

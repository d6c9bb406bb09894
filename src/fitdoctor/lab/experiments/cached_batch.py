"""One batch, again and again: what the step takes when it never waits for data."""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import Job

NAME = "one cached batch"


def worth(seen: Seen) -> float:
    """Return more than anything else: all what-ifs rest on it."""
    del seen
    return 10.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Run the job as it is, on one batch."""
    del seen
    yield Comparison("cached batch", job.block, detail={"rows": job.batch_rows})

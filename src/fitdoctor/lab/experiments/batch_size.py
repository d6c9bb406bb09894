"""Larger batches, until throughput or memory flattens."""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant

NAME = "batch size"
FACTORS = (2, 4, 8)
_LONG_NS = 500e6


def worth(seen: Seen) -> float:
    """Weigh what larger batches could share out; last, since it changes the learning."""
    return 0.2 if seen.step_ns < _LONG_NS else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Time steps on the same rows repeated; nanoseconds per step, so divide by the factor for throughput."""
    del seen
    rows = job.batch_rows
    for factor in FACTORS:
        larger = Variant(rows=rows * factor, callbacks=())
        yield Comparison(
            f"batch size x{factor}",
            lambda larger=larger: job.block(larger),  # type: ignore[misc]
            lambda: job.block(BARE),
            {"rows": rows * factor, "own": rows},
        )

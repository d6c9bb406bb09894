"""Larger batches, until throughput or memory flattens."""

from __future__ import annotations

import functools
import resource
import statistics
from collections.abc import Iterator

from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant
from fitdoctor.lab.snapshot import free_memory

NAME = "batch size"
FACTORS = (2, 4, 8, 16, 32)
FLAT = 0.95
"""A batch twice as large that leaves more than this of the time per sample no longer raises the throughput."""
VERY_FEW = 4
_LONG_NS = 500e6
_KIB = 1024


def worth(seen: Seen) -> float:
    """Weigh what larger batches could share out; last, since they change the learning.

    But where gradients add up, and where a batch holds so few samples that hardly anything else could matter as much.
    """
    few = 0 < int(seen.info.get("batch_size") or 0) <= VERY_FEW
    least = 0.8 if few else 0.5 if seen.info.get("accumulation") else 0.2
    return least * (1 - seen.shares["fetch"]) if seen.step_ns < _LONG_NS else 0.0


class Curve:
    """What larger batches took so far."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._rows = job.batch_rows
        self._steps: dict[int, list[float]] = {}
        self._grew = 0
        """Bytes by which the largest batch so far raised the memory that the process had ever used."""

    def as_is(self) -> float:
        """Run a block of the user's own batches."""
        return self._note(1, self._job.block(BARE))

    def larger(self, factor: int) -> float:
        """Run a block of batches so many times as large: the same rows repeated."""
        before = _peak()
        took = self._job.block(Variant(rows=self._rows * factor, callbacks=()))
        self._grew = max(self._grew, _peak() - before)
        return self._note(factor, took)

    def ended(self, factor: int) -> bool:
        """Tell whether a batch of this size has nothing to tell, or does not fit."""
        if factor // 2 not in self._steps:
            return factor > FACTORS[0]
        if self._too_large():
            return True
        one, two = (self._steps.get(each) for each in (factor // 4, factor // 2))
        # Per sample: a step of the second holds twice as many.
        return bool(one and two) and statistics.median(two or ()) / 2 > FLAT * statistics.median(one or ())

    def told(self) -> dict[str, bool]:
        """Say whether memory keeps still larger batches from being tried."""
        return {"memory": True} if self._too_large() else {}

    def _too_large(self) -> bool:
        return 2 * self._grew > free_memory()

    def _note(self, factor: int, took: float) -> float:
        self._steps.setdefault(factor, []).append(took)
        return took


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Time steps on more rows; nanoseconds per step, so divide by the factor for throughput."""
    del seen
    curve = Curve(job)
    for factor in FACTORS:
        yield Comparison(
            f"batch size x{factor}",
            functools.partial(curve.larger, factor),
            curve.as_is,
            {"rows": job.batch_rows * factor, "own": job.batch_rows},
            curve.told,
            pointless=functools.partial(curve.ended, factor),
        )

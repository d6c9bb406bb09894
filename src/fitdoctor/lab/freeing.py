"""Epochs at whose beginning a training stands still while old data is freed: not what a change of the input gives."""

from __future__ import annotations

import time
from collections.abc import Callable

FAR_LONGER = 5
LEAST_STALL_NS = 50_000_000


class Freeing:
    """Keeps what passes from the end of an epoch to the first step of the next.

    There the loop lets go of the data of the epoch before, and TensorFlow now and then waits for the thread that tunes
    the pipeline, as long as an epoch takes: that comes and goes, and is no part of either training.
    """

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._usual: int | None = None
        self.begin()

    def begin(self) -> None:
        """Begin another block."""
        self._seen: list[int] = []
        self._ended: int | None = None

    def epoch_ended(self) -> None:
        """Note that an epoch has ended."""
        self._ended = self._clock()

    def step_begins(self) -> None:
        """Note that a step begins."""
        if self._ended is not None:
            self._seen.append(self._clock() - self._ended)
            self._ended = None

    def stalls(self) -> list[int]:
        """Return the nanoseconds for which each epoch but the first stood still at its beginning."""
        known = [] if self._usual is None else [self._usual]
        usual = self._usual = min([*self._seen, *known], default=0)
        return [each - usual if each > max(LEAST_STALL_NS, FAR_LONGER * usual) else 0 for each in self._seen]

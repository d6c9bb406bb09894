"""Batches pulled from a loader and thrown away, in blocks; two loaders in turns."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.model import Interval

BLOCK_SECONDS = 0.25
LEAD_SECONDS = 0.1
_FEWEST = 3
_WHOLE_SECONDS = 1.0
"""A block in which the data begins goes on through all of it, for so long at most: the first batch of shuffled data
pays for many others."""
TIGHT = 0.02
"""A ratio known to within this is known well enough."""
FEWEST_PAIRS, MOST_PAIRS = 3, 8


class Puller:
    """Pulls batches in blocks, beginning the data anew where it ends."""

    def __init__(self, begin: Callable[[], Iterator[Any]]) -> None:
        self._begin = begin
        self._batches = begin()
        self._place = 0
        """How many batches were drawn since the data began."""

    def skip(self, count: int) -> None:
        """Draw batches that do not count, as far as the data goes."""
        for _ in range(count):
            self._place += 1
            if next(self._batches, None) is None:
                self._anew()
                return

    def _anew(self) -> None:
        self._batches, self._place = self._begin(), 0

    def block(self, seconds: float = BLOCK_SECONDS, pause: float = 0.0, lead: float = 0.0) -> float:
        """Pull batches for a while and return nanoseconds per batch.

        `pause`: rest so long after each, as a training thread does while a device computes; it counts.
        `lead`: draw batches for so long before any counts: what was prepared while nobody asked would look like speed.
        """
        until = time.perf_counter() + lead
        while lead and time.perf_counter() < until:
            self.skip(1)
        count = spent = 0
        since: int | None = None
        first, begun = self._place, self._place == 0
        most = max(seconds, _WHOLE_SECONDS) * 1e9
        # What a beginning costs is shared by all batches up to the next one.
        while spent < seconds * 1e9 or count < _FEWEST or (begun and spent < most and self._place != first):
            start = time.perf_counter_ns()
            try:
                next(self._batches)
            except StopIteration:
                if since == 0:
                    raise CannotRun(
                        "the data is used up: it cannot be begun anew", do="try it with data that can be read twice"
                    ) from None
                self._anew()
                since, begun = 0, True
                continue
            since = None
            self._place += 1
            if pause:
                time.sleep(pause)
            spent += time.perf_counter_ns() - start
            count += 1
        return spent / count


@dataclass(frozen=True, slots=True)
class Pace:
    """What pulling batches takes and uses."""

    seconds: float
    cores: float
    """Cores kept busy meanwhile."""


def pace(block: Callable[[], float]) -> Pace:
    """Pull one block and watch the CPU meanwhile."""
    start, used = time.perf_counter(), time.process_time()
    took = block()
    return Pace(took / 1e9, (time.process_time() - used) / max(1e-9, time.perf_counter() - start))


def in_turns(before: Callable[[], float], after: Callable[[], float], seconds: float) -> Interval:
    """Run both in turns (ABBA) and return `after` over `before`, with the range that holds it 19 times in 20."""
    logs: list[float] = []
    deadline = time.monotonic() + seconds
    while len(logs) < MOST_PAIRS:
        took = [0.0, 0.0]
        for which in (0, 1) if len(logs) % 2 else (1, 0):
            took[which] = (before, after)[which]()
        logs.append(math.log(took[1] / took[0]))
        if len(logs) >= FEWEST_PAIRS and (time.monotonic() >= deadline or _spread(logs) < TIGHT):
            break
    mid, spread = statistics.median(logs), _spread(logs)
    return Interval(math.exp(mid - spread), math.exp(mid), math.exp(mid + spread))


def _spread(logs: list[float]) -> float:
    # Student's t for few pairs.
    return (2 + 4 / len(logs)) * statistics.stdev(logs) / math.sqrt(len(logs))

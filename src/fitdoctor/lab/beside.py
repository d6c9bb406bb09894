"""A jitted step of a hand-written loop, with Python's work after it and with Python's work beside it.

The step is a pure function: it is run again on the arguments it just had, and what it returns is dropped.  Python's
work is stood in for by NumPy's, as much of it as takes as long as the loop's own lines took.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

BLOCK_NS = 500e6
FEWEST, MOST = 2, 200
"""Steps in a block."""
_UNIT = 2_000
"""Random numbers drawn at a time: some ten microseconds of work."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what the step prints to itself: it was printed once already."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


class JittedStep:
    """One step, ready to be run again in blocks."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._run: Callable[[], Any] = lambda: function(*args, **kwargs)
        self._wait: Callable[[Any], Any] = sys.modules["jax"].block_until_ready
        self._units = self._steps = 0

    def prepare(self, python_ns: float) -> None:
        """Find out how much work takes so long, and how many steps make a block."""
        import numpy as np

        self._draw = np.random.default_rng(0).standard_normal
        self._work(50)
        start = time.perf_counter_ns()
        self._work(200)
        self._units = max(1, round(python_ns * 200 / (time.perf_counter_ns() - start)))
        self._wait(self._run())
        start = time.perf_counter_ns()
        self._wait(self._run())
        once = time.perf_counter_ns() - start + python_ns
        self._steps = max(FEWEST, min(MOST, int(BLOCK_NS / once)))

    def _work(self, units: int) -> None:
        for _ in range(units):
            self._draw(_UNIT)

    def in_turns(self) -> float:
        """Run a block as the loop does: wait for the step, then work; return nanoseconds per step."""
        return self._block(wait_first=True)

    def overlapped(self) -> float:
        """Run a block that works while the device computes."""
        return self._block(wait_first=False)

    def _block(self, *, wait_first: bool) -> float:
        took = []
        with quiet():
            for _ in range(self._steps):
                start = time.perf_counter_ns()
                result = self._run()
                if wait_first:
                    self._wait(result)
                self._work(self._units)
                self._wait(result)
                took.append(time.perf_counter_ns() - start)
        # The middle one: a pause in one step says nothing about either way.
        return float(statistics.median(took))

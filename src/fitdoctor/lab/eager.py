"""The step of a hand-written TensorFlow loop, compiled and as it is: op by op.

The function is called again with the arguments it had when the loop was cut short.  What it changes are variables, and
tracing it tells which: they are put back after every block.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.beside import quiet
from fitdoctor.lab.job import wait_for
from fitdoctor.lab.snapshot import free_memory

BLOCK_NS = 400e6
FEWEST, MOST = 2, 400
"""Calls in a block."""
COMPILED = "the step compiled"


class EagerStep:
    """One step, ready to be run again in blocks."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        compiled = sys.modules["tensorflow"].function(function)
        start = time.perf_counter()
        with quiet():
            traced = compiled.get_concrete_function(*args, **kwargs)
        self.compile_s = time.perf_counter() - start
        variables = list(traced.graph.variables)
        need = sum(int(each.shape.num_elements() or 0) * each.dtype.size for each in variables)
        if need * 1.5 > free_memory():
            raise CannotRun("a copy of the model's state does not fit into memory", do="run it where there is more")
        self._state = [(each, each.read_value()) for each in variables]
        self._as_is: Callable[[], Any] = lambda: function(*args, **kwargs)
        self._compiled: Callable[[], Any] = lambda: compiled(*args, **kwargs)
        self._calls: dict[int, int] = {}

    def as_is(self) -> float:
        """Run a block op by op; return nanoseconds per step."""
        return self._block(self._as_is)

    def compiled(self) -> float:
        """Run a block of the compiled step."""
        return self._block(self._compiled)

    def _block(self, step: Callable[[], Any]) -> float:
        try:
            with quiet():
                if id(step) not in self._calls:
                    self._timed(step, FEWEST)
                    once = self._timed(step, FEWEST)
                    self._calls[id(step)] = max(FEWEST, min(MOST, int(BLOCK_NS / once)))
                return self._timed(step, self._calls[id(step)])
        finally:
            for variable, value in self._state:
                variable.assign(value)

    def _timed(self, step: Callable[[], Any], calls: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(calls):
            step()
        wait_for("tensorflow", None)
        return (time.perf_counter_ns() - start) / calls

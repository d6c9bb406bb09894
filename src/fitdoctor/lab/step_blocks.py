"""The step of a hand-written loop, called again in blocks with the arguments it had when the loop was cut short.

What a step of TensorFlow changes are variables, and its graph tells which: they are put back after every block.  A step
of JAX changes nothing; what it returns is dropped.
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


class StepBlocks:
    """Runs steps in blocks and puts variables back after each."""

    def __init__(self, backend: str, graph: Any = None) -> None:
        variables = list(graph.variables) if graph is not None else []
        need = sum(int(each.shape.num_elements() or 0) * each.dtype.size for each in variables)
        if need * 1.5 > free_memory():
            raise CannotRun("a copy of the model's state does not fit into memory", do="run it where there is more")
        self._backend = backend
        self._state = [(each, each.read_value()) for each in variables]
        self._calls: dict[int, int] = {}

    def run(self, step: Callable[[], Any]) -> float:
        """Run a block of a step; return nanoseconds per call."""
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
        result = None
        for _ in range(calls):
            result = step()
        wait_for(self._backend, result)
        return (time.perf_counter_ns() - start) / calls


class UnjittedStep:
    """A step of JAX, op by op as it is, and jitted: what it returns is dropped.

    One that changes variables of its own leaves tracers in them, and fails when it runs op by op next: that is a gap.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        jax = sys.modules["jax"]
        jitted = jax.jit(function)
        self._blocks = StepBlocks("jax")
        self._as_is: Callable[[], Any] = lambda: function(*args, **kwargs)
        self._jitted: Callable[[], Any] = lambda: jitted(*args, **kwargs)
        start = time.perf_counter()
        with quiet():
            jax.block_until_ready(self._jitted())
        self.compile_s = time.perf_counter() - start

    def as_is(self) -> float:
        """Run a block op by op; return nanoseconds per step."""
        return self._blocks.run(self._as_is)

    def compiled(self) -> float:
        """Run a block of the jitted step."""
        return self._blocks.run(self._jitted)


class CompiledStep:
    """A compiled step whose arguments it has seen: nothing is compiled again."""

    def __init__(self, backend: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]):
        graph = None
        if backend == "tensorflow":
            graph = function.get_concrete_function(*args, **kwargs).graph  # type: ignore[attr-defined]
        self._blocks = StepBlocks(backend, graph)
        self._step: Callable[[], Any] = lambda: function(*args, **kwargs)

    def block(self) -> float:
        """Run a block; return nanoseconds per step."""
        return self._blocks.run(self._step)


class EagerStep:
    """A step of TensorFlow, op by op as it is, and compiled."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        compiled = sys.modules["tensorflow"].function(function)
        start = time.perf_counter()
        with quiet():
            traced = compiled.get_concrete_function(*args, **kwargs)
        self.compile_s = time.perf_counter() - start
        self._blocks = StepBlocks("tensorflow", traced.graph)
        self._as_is: Callable[[], Any] = lambda: function(*args, **kwargs)
        self._compiled: Callable[[], Any] = lambda: compiled(*args, **kwargs)

    def as_is(self) -> float:
        """Run a block op by op; return nanoseconds per step."""
        return self._blocks.run(self._as_is)

    def compiled(self) -> float:
        """Run a block of the compiled step."""
        return self._blocks.run(self._compiled)

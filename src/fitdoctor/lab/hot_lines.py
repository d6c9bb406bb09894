"""Where the user's own Python spends its time while it makes batches: which lines, which loops, in what.

Nothing is attached to the training: the lab makes batches alone, on one thread, while another looks at that thread some
hundred times a second (`sys._current_frames`).  A look costs a few microseconds; it weighs as much as the time since
the last one, so a call that keeps the GIL for long, and the looker waiting, weighs what it took.  Profilers that time
each line (line_profiler, cProfile, `sys.monitoring` with callbacks) make tight loops several times as slow, which is
the very thing to be measured; signals reach into the user's system calls; py-spy and austin need rights on the process.

How often lines run is counted in one more batch, under `sys.settrace`: what the interpreter itself needs for them is
the number of their instructions times what an instruction takes here at least.
"""

from __future__ import annotations

import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

from fitdoctor.probes.code_loops import CodeLoop, loop_at, made_of, outermost
from fitdoctor.probes.install import OWN_FOLDER, is_users

EVERY_SECONDS = 0.004
SWITCH_SECONDS = 1e-5
"""For how long the watched thread may keep the GIL from the looker: with Python's own 5 ms a look would wait for a call
that gives the GIL back by itself, and see nothing but those."""
MOST_LINES = 8
COUNT_SECONDS = 3.0
"""Counting makes Python several times as slow: a batch that takes longer is counted in part."""
_LOOKS_AT = 40
"""How often a loop's variables are looked at, to learn whether they are arrays."""

Stack = tuple[tuple[types.CodeType, int, int], ...]


def user_stack(frame: types.FrameType | None) -> Stack:
    """Return the user's own frames of a stack, outermost first, down from where the lab called them."""
    found: list[tuple[types.CodeType, int, int]] = []
    while frame is not None and not frame.f_code.co_filename.startswith(OWN_FOLDER):
        if is_users(frame.f_code.co_filename):
            found.append((frame.f_code, frame.f_lineno or frame.f_code.co_firstlineno, frame.f_lasti))
        frame = frame.f_back
    return tuple(reversed(found))


class Sampler:
    """Looks at a thread while it works, and weighs what it sees by time."""

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self.weights: dict[Stack, int] = {}
        self.total = 0

    def look(self, frame: types.FrameType | None, since: int) -> int:
        """Add the time since the last look to what the thread does now; return the time of this look."""
        now = self._clock()
        stack = user_stack(frame)
        self.weights[stack] = self.weights.get(stack, 0) + now - since
        self.total += now - since
        return now

    def watch(self, work: Callable[[], Any]) -> Any:
        """Run `work` on this thread and look at it from another."""
        ident, done = threading.get_ident(), threading.Event()
        ours = sys._getframe()

        def looks() -> None:
            last = self._clock()
            while not done.wait(EVERY_SECONDS):
                frame = sys._current_frames().get(ident)
                if frame is not ours and not done.is_set():
                    last = self.look(frame, last)

        looker = threading.Thread(target=looks, name="fitdoctor-lines", daemon=True)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(min(interval, SWITCH_SECONDS))
        looker.start()
        try:
            return work()
        finally:
            done.set()
            looker.join()
            sys.setswitchinterval(interval)


class Counter:
    """Counts, in each outermost loop of the user's, the instructions that ran: his own and NumPy's Python."""

    def __init__(self) -> None:
        self.counts: dict[CodeLoop, list[int]] = {}
        """Instructions, operations that may work on arrays."""
        self.arrays: dict[CodeLoop, bool] = {}
        self._looked: dict[CodeLoop, int] = {}
        self._until = 0.0

    def count(self, work: Callable[[], Any]) -> None:
        """Run `work` on this thread, counted."""
        before = sys.gettrace()
        self._until = time.monotonic() + COUNT_SECONDS
        sys.settrace(self._entered)
        try:
            work()
        finally:
            sys.settrace(before)

    def _entered(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if time.monotonic() > self._until:
            sys.settrace(None)
            return None
        path = frame.f_code.co_filename
        users = is_users(path)
        if not users and "numpy" not in path:
            return None
        around = outermost(list(user_stack(frame.f_back)))
        if around is None and not users:
            return None
        code, lines = frame.f_code, made_of(frame.f_code)

        def ran(frame: types.FrameType, event: str, arg: Any) -> Any:
            if event == "line":
                loop = around or loop_at(code, frame.f_lineno, frame.f_lasti)
                if loop is not None:
                    self._add(loop, lines.get(frame.f_lineno, (1, 0)), frame if users else None)
            return ran

        return ran

    def _add(self, loop: CodeLoop, line: tuple[int, int], frame: types.FrameType | None) -> None:
        entry = self.counts.setdefault(loop, [0, 0])
        entry[0] += line[0]
        entry[1] += line[1]
        looked = self._looked.get(loop, 0)
        if frame is not None and looked < _LOOKS_AT and not self.arrays.get(loop):
            self._looked[loop] = looked + 1
            self.arrays[loop] = loop.handles_arrays(frame.f_locals)


def instruction_ns() -> float:
    """Return what an instruction of the interpreter takes here at least: additions of numbers, in a loop."""
    times = 20_000
    best = min(_timed(_spin, times) for _ in range(5))
    per_turn = sum(count for line, (count, _) in made_of(_spin.__code__).items() if line in _SPIN_LINES)
    return best / times / per_turn


def small_operation_ns() -> float:
    """Return what NumPy takes here at least for an operation on an array, however small."""
    import numpy as np

    one = np.ones(1, "float32")

    def work(times: int) -> None:
        for _ in range(times):
            one + one

    times = 2_000
    return min(_timed(work, times) for _ in range(5)) / times


def _timed(work: Callable[[int], Any], times: int) -> float:
    start = time.perf_counter_ns()
    work(times)
    return float(time.perf_counter_ns() - start)


def _spin(times: int) -> float:
    total = 0.0
    for step in range(times):
        total = total + step * 0.5
    return total


_SPIN_LINES = frozenset(range(_spin.__code__.co_firstlineno + 2, _spin.__code__.co_firstlineno + 4))

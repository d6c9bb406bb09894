"""Which lines of the user's own Python run while a layer does, on whatever thread, and for how long.

In a compiled step no Python runs, except what a graph calls back: a look that finds the user's frames under a callback
of TensorFlow or JAX found such a call.  Where a layer runs op by op, its lines are on the stack all the time: which of
them are NumPy's is for the source to tell.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

from fitdoctor.lab.hot_lines import EVERY_SECONDS, MOST_LINES, SWITCH_SECONDS, user_stack

_CALLBACKS = ("/tensorflow/python/ops/script_ops.py", "/jax/_src/")


Line = tuple[str, int, str, str, int]
"""Where Python was, and the outermost line of the user's own that led there."""


class HostLines:
    """Looks at all threads while something runs, and weighs lines by time."""

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._lines: dict[Line, int] = {}
        self._total = 0

    def look(self, frames: dict[int, types.FrameType], working: int, since: int) -> int:
        """Add the time since the last look to a line of the user's that runs now; return the time of this look."""
        now = self._clock()
        self._total += now - since
        for thread, frame in frames.items():
            stack = user_stack(frame)
            if stack and (thread == working or _called_back(frame)):
                (first, led, _), (code, line, _) = stack[0], stack[-1]
                key = os.path.abspath(code.co_filename), line, code.co_name, os.path.abspath(first.co_filename), led
                self._lines[key] = self._lines.get(key, 0) + now - since
                break
        return now

    def watch(self, work: Callable[[], float]) -> float:
        """Run `work` on this thread and look at all of them from another."""
        working, done = threading.get_ident(), threading.Event()

        def looks() -> None:
            last = self._clock()
            while not done.wait(EVERY_SECONDS):
                frames = sys._current_frames()
                frames.pop(threading.get_ident(), None)
                last = self.look(frames, working, last)

        looker = threading.Thread(target=looks, name="fitdoctor-host-lines", daemon=True)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(min(interval, SWITCH_SECONDS))
        looker.start()
        try:
            return work()
        finally:
            done.set()
            looker.join()
            sys.setswitchinterval(interval)

    def detail(self) -> dict[str, Any]:
        """Return the lines that ran, as shares of the time."""
        ranked = sorted(self._lines.items(), key=lambda each: -each[1])[:MOST_LINES]
        return {
            "lines": [
                {"path": path, "line": line, "symbol": symbol, "from": led, "share": weight / max(1, self._total)}
                for (path, line, symbol, *led), weight in ranked
            ]
        }


def _called_back(frame: types.FrameType | None) -> bool:
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _CALLBACKS):
            return True
        frame = frame.f_back
    return False

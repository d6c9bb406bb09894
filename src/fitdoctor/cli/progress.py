"""Progress on standard error, beside a script that owns the terminal.

Whole lines only: the script's own progress bar may be on the current line, so on a terminal that line is
cleared first; the bar redraws itself on the next one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TextIO

from fitdoctor.report.characters import harmless


class Progress:
    """Shows a message when it says something new, and now and then when only its numbers have changed."""

    def __init__(self, stream: TextIO, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._quiet = quiet
        self._clock = clock
        self._terminal = stream.isatty()
        self._every = 3.0 if self._terminal else 15.0
        self._kind = ""
        self._shown = float("-inf")

    def __call__(self, message: str) -> None:
        """Show a message, or not."""
        kind = re.sub(r"[\d.,]+", "0", message)
        now = self._clock()
        if self._quiet or (kind == self._kind and now - self._shown < self._every):
            return
        self._kind, self._shown = kind, now
        text = harmless(message, getattr(self._stream, "encoding", None) or "utf-8")
        start, end = ("\r\x1b[K\x1b[2m", "\x1b[0m\n") if self._terminal else ("", "\n")
        try:
            self._stream.write(f"{start}fitdoctor: {text}{end}")
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads it any more; the run goes on
            self._quiet = True

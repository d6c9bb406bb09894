"""Ctrl-C that the experiments did not hear: said once more.

The terminal sends it to both of us.  Who watches has heard it; whether the process that experiments has, nobody can ask
it.  But it tells how far it has come: one that goes on for seconds has not, and gets it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

DEAF_SECONDS = 5.0
"""So long after Ctrl-C experiments may go on: a block is ended, the model's state put back."""


class Reminder:
    """Looks whether experiments go on after Ctrl-C."""

    def __init__(
        self,
        started_ns: int,
        heard_ns: Callable[[], int | None],
        again: Callable[[], None],
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """`heard_ns`: when Ctrl-C came last, if it did; `again`: sends it."""
        self._started_ns = started_ns
        self._heard_ns = heard_ns
        self._again = again
        self._clock = clock
        self._said_ns = 0

    def look(self, seen: Mapping[str, Any]) -> None:
        """Send it again where what was seen of the process is that it experiments, long after."""
        heard = self._heard_ns()
        if heard is None or not seen.get("lab") or seen.get("lab_since") is None:
            return
        if heard < self._started_ns + seen["lab_since"] * 1e9:
            return  # it was for the script, which has decided what it means
        told_ns = self._started_ns + seen["elapsed"] * 1e9
        if told_ns - max(heard, self._said_ns) > DEAF_SECONDS * 1e9:
            self._said_ns = self._clock()
            self._again()

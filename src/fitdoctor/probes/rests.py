"""Rests: a long run of short steps is watched in turns with stretches in which our hooks are not there at all.

A line of Python between two steps of a compiled training costs far more than in a tight loop, since the step has
emptied the caches: some 10 µs for every function of ours that is passed through, on a step of a millisecond or two.
So once enough was seen, hooks that run in every step are taken away, and put back for a tenth of every second.  Who
counts the steps meanwhile is an iterator written in C, which the epoch's steps pass through anyway.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.probes.calls import ActiveCall

SHORT_STEP_NS = 10_000_000
SEEN_STEPS, SEEN_NS = 1000, 3_000_000_000
AWAKE_NS = 100_000_000
"""A run that is watched to its end and has steps so short that our hooks are felt: once so many steps were seen for so
long, they are watched for so long after every tick of the background thread."""
LONG_NS = 1_000_000_000
FORGOTTEN_NS = 5_000_000_000
"""A rest that nobody ended ends itself, if hooks that could not be taken away tell."""
_MANY = 1 << 62


class Drawn:
    """Counts what passes through it, in C."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = itertools.repeat(None, _MANY)

    def through(self, source: Iterator[Any]) -> Iterator[Any]:
        """Hand on what `source` gives and count it."""
        return map(operator.itemgetter(0), zip(source, self._left, strict=False))

    @property
    def count(self) -> int:
        """How many there were."""
        return _MANY - operator.length_hint(self._left)


class Rests:
    """Decides when hooks may go, and tells those who own them."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.hooks: list[Callable[[bool], None]] = []
        """Told True when a rest begins: take away what runs in every step; told False: put it back."""
        self.awake_until = 0
        self._from = 0
        """How many steps of the epoch had been drawn when the rest began."""

    def allowed(self, call: ActiveCall) -> bool:
        """Tell whether a call's steps are counted without us."""
        return call.kind == "fit" and call.drawn is not None and call.info.get("steps_per_epoch") is not None

    def seen_enough(self, steps: int, nanoseconds: int) -> bool:
        """Tell whether so many steps in so long a time may be followed by a rest."""
        return steps >= SEEN_STEPS and SEEN_NS <= nanoseconds < SHORT_STEP_NS * steps

    def ask_again(self, steps: int, nanoseconds: int) -> int:
        """Return after how many nanoseconds to ask that again: long steps hardly become short ones."""
        return AWAKE_NS if nanoseconds < SHORT_STEP_NS * steps else LONG_NS

    def begin(self, call: ActiveCall) -> None:
        """Take the hooks away after the last step drawn."""
        self._from = call.drawn.count
        for hook in self.hooks:
            hook(True)

    def end(self) -> None:
        """Put the hooks back; it does not matter how often or on which thread."""
        for hook in self.hooks:
            hook(False)

    def rested(self, call: ActiveCall) -> int:
        """Return how many steps were drawn since the rest began."""
        drawn: Drawn = call.drawn
        return drawn.count - self._from

"""The complete account of the training thread's time.

One stack of buckets.  Whatever is on top owns the time that passes, so that from process start to end every nanosecond
belongs to exactly one bucket and the sums are right by construction, however deeply the work nests (a checkpoint saved
inside a callback inside an epoch).  Only the training thread touches it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

# Inside a step.
FETCH: Final = 0
TRANSFER: Final = 1
RUN: Final = 2
CALLBACK: Final = 3
SYNC: Final = 4
LOOP: Final = 5
# Around it.
IMPORTS: Final = 6
SETUP: Final = 7
COMPILING: Final = 8
VALIDATION: Final = 9
BETWEEN: Final = 10
HOOKS: Final = 11
"""Callbacks at the level of epochs and of the whole training."""
SAVING: Final = 12
REST: Final = 13
OWN: Final = 14
"""fitdoctor itself: reading clocks, waiting for the device in a sampled step."""
STEADY: Final = 15
"""Sum of the steps' buckets over steady steps; never on the stack."""

STEP_BUCKETS: Final = (FETCH, TRANSFER, RUN, CALLBACK, SYNC, LOOP)
_SIZE: Final = 16

PHASE_OF: Final = {
    IMPORTS: "imports",
    SETUP: "set-up",
    COMPILING: "compiling",
    STEADY: "steady steps",
    VALIDATION: "validation",
    BETWEEN: "between epochs",
    HOOKS: "callbacks",
    SAVING: "saving",
    REST: "rest",
    OWN: "rest",
}


class Account:
    """A stack of buckets and the time each has owned.

    What runs in every step does not turn the stack: it reads the clock twice and carves what passed out of the bucket
    on top (see `carve`), in place, since at a millisecond a step every line counts.  Hence the fields are open.
    """

    __slots__ = ("clock", "last", "marks", "stack", "totals", "turns")

    def __init__(self, start_ns: int, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.clock = clock
        self.last = start_ns
        self.stack = [SETUP]
        self.marks = [0] * len(STEP_BUCKETS)
        self.totals = [0] * _SIZE
        self.turns = 0
        """How often a bucket changed: what our own bookkeeping costs is proportional to it."""

    def enter(self, bucket: int) -> int:
        """Let `bucket` own the time from now on; returns the time."""
        now = self.clock()
        stack = self.stack
        self.totals[stack[-1]] += now - self.last
        self.last = now
        stack.append(bucket)
        self.turns += 1
        return now

    def leave(self) -> int:
        """Give the time back to whoever owned it before; returns the time."""
        now = self.clock()
        stack = self.stack
        self.totals[stack[-1]] += now - self.last
        self.last = now
        if len(stack) > 1:
            stack.pop()
        return now

    def switch(self, bucket: int) -> int:
        """Replace the owner on top."""
        now = self.clock()
        self.totals[self.stack[-1]] += now - self.last
        self.last = now
        self.stack[-1] = bucket
        return now

    def settle(self) -> int:
        """Bring the totals up to date; returns the time."""
        now = self.clock()
        self.totals[self.stack[-1]] += now - self.last
        self.last = now
        return now

    @property
    def depth(self) -> int:
        """How many owners are on the stack."""
        return len(self.stack)

    @property
    def top(self) -> int:
        """Who owns the time now."""
        return self.stack[-1]

    def unwind(self, depth: int) -> None:
        """Drop owners left behind by an exception."""
        self.settle()
        del self.stack[max(depth, 1) :]

    def rebase(self, bucket: int) -> None:
        """Replace the owner at the very bottom: what the script does outside of everything else."""
        self.settle()
        self.stack[0] = bucket

    def move(self, bucket: int, amount_ns: int) -> None:
        """Hand time that the top owner was just credited with to another bucket."""
        self.settle()
        top = self.stack[-1]
        amount_ns = max(0, min(amount_ns, self.totals[top]))
        self.totals[top] -= amount_ns
        self.totals[bucket] += amount_ns

    def carve(self, bucket: int, start_ns: int, end_ns: int, owned_ns: int, last_ns: int) -> None:
        """Hand to `bucket` what the loop owned between two readings of the clock.

        `owned_ns` and `last_ns` are `totals[LOOP]` and `last` as they were at the start.  If they are as they were, all
        the time in between was the loop's; otherwise something else turned the stack meanwhile and keeps its part.
        """
        spent = end_ns - start_ns + self.totals[LOOP] - owned_ns - (self.last - last_ns)
        self.totals[bucket] += spent
        self.totals[LOOP] -= spent

    def step(self) -> None:
        """Begin the next step."""
        self.marks = self.totals[: len(STEP_BUCKETS)]

    def reclassify(self, bucket: int) -> None:
        """Give what the step buckets have owned since the last step to another bucket: no step came of it."""
        self.settle()
        for i, mark in enumerate(self.marks):
            self.totals[bucket] += self.totals[i] - mark
            self.totals[i] = mark

    def phases(self) -> dict[str, float]:
        """Seconds per phase, summing to all the time since the start."""
        self.settle()
        totals = self.totals
        seconds = dict.fromkeys(PHASE_OF.values(), 0.0)
        for bucket, phase in PHASE_OF.items():
            seconds[phase] += totals[bucket] / 1e9
        # Steps in progress are in the step buckets but not yet committed to a phase.
        pending = sum(totals[i] - mark for i, mark in enumerate(self.marks))
        seconds["steady steps"] += pending / 1e9
        return seconds

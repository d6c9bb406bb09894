"""Which of several fixes to keep: they are proved together, and where that is not enough, one by one.

A fix that does not help is dropped and the rest proved again; what is kept was itself proved, so it is never slower
than what was there before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fitdoctor.model import Proof

Places = frozenset[int]
"""Fixes, by their place in the report's list of findings."""
Prover = Callable[[Places, float], Proof]
"""Proves a set of fixes within so many seconds."""
TOGETHER = 0.5
"""The share of the time for the first proof, where there may be others."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A set of fixes and what its proof says."""

    places: Places
    proof: Proof

    @property
    def proved(self) -> bool:
        """Whether it is faster and learns the same."""
        return self.proof.verdict == "PROVED"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was tried, in order, and what is kept of it."""

    tried: tuple[Tried, ...]
    kept: Tried | None
    untried: tuple[int, ...] = ()
    """Fixes that were to be proved by themselves when the time was up."""

    def alone(self, place: int) -> Tried | None:
        """Return the proof of one fix by itself, where there is one."""
        return next((each for each in self.tried if each.places == {place}), None)


def decide(
    places: Sequence[int],
    prove: Prover,
    *,
    seconds: float,
    one_by_one: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Prove these fixes, those that matter most first, and return which of them to keep."""
    deadline = clock() + seconds
    every = frozenset(places)
    tried: list[Tried] = []
    untried: list[int] = []

    def attempt(chosen: Places, share: float) -> Tried:
        tried.append(Tried(chosen, prove(chosen, max(0.0, deadline - clock()) * share)))
        return tried[-1]

    def concluded(kept: Tried | None) -> Outcome:
        return Outcome(tuple(tried), kept if kept is not None and kept.proved else None, tuple(untried))

    together = attempt(every, TOGETHER if len(every) > 1 else 1.0)
    if len(every) == 1 or (together.proved and not one_by_one):
        return concluded(together)
    good: list[Tried] = []
    for number, place in enumerate(places):
        # A proof takes a few runs at least: all of them would take many times as long as was given.
        if number and clock() >= deadline:
            untried = [*places[number:]]
            break
        alone = attempt(frozenset({place}), 1 / (len(places) + 1 - number))
        good += [alone] if alone.proved else []
    helping = frozenset(place for each in good for place in each.places)
    if not good or (together.proved and (untried or helping == every)):
        # None is worth it by itself: all of them together may be.  Nor is one dropped that was not tried.
        return concluded(together)
    best = max(good, key=lambda each: each.proof.speedup.mid)
    if len(good) == 1 or helping == every:
        return concluded(best)
    again = attempt(helping, 1.0)
    return concluded(again if again.proved else best)

"""The wait for the next batch, where a trainer fetches in Python (JAX, torch, eager steps)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fitdoctor.probes.account import FETCH, LOOP
from fitdoctor.probes.install import hide
from fitdoctor.probes.steps import Tracker


def timed(source: Iterable[Any], tracker: Tracker) -> Iterator[Any]:
    """Hand on batches and account the time each took to arrive."""
    # Made at once, as it would be without us: making an iterator may draw random numbers.
    return _timed(iter(source).__next__, tracker)


def _timed(fetch: Callable[[], Any], tracker: Tracker) -> Iterator[Any]:
    """Keep all names between two batches, so that a fetch costs two readings of the clock and little more."""
    account = tracker.account
    stack, totals, clock = account.stack, account.totals, account.clock
    while True:
        try:
            if tracker.resting:
                batch = fetch()
            elif stack[-1] == LOOP:
                owned, last = totals[LOOP], account.last
                start = clock()
                batch = fetch()
                end = clock()
                if account.last == last and totals[LOOP] == owned:
                    totals[FETCH] += end - start
                    totals[LOOP] -= end - start
                else:
                    account.carve(FETCH, start, end, owned, last)
            else:
                account.enter(FETCH)
                try:
                    batch = fetch()
                finally:
                    account.leave()
        except StopIteration:
            return
        except BaseException as error:
            hide(error)
            raise
        yield batch


class TimedIterable:
    """Stands in for what a trainer is about to call `iter` on."""

    __slots__ = ("_source", "_tracker")

    def __init__(self, source: Any, tracker: Tracker) -> None:
        self._source = source
        self._tracker = tracker

    def __iter__(self) -> Iterator[Any]:
        return timed(self._source, self._tracker)

    def __len__(self) -> int:
        return len(self._source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

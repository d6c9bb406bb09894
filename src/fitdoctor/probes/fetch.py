"""The wait for the next batch, where a trainer fetches in Python (JAX, torch, eager steps)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fitdoctor.probes.account import FETCH, LOOP
from fitdoctor.probes.install import hide
from fitdoctor.probes.steps import ActiveCall, Tracker


def timed(source: Iterable[Any], tracker: Tracker, call: ActiveCall) -> Iterator[Any]:
    """Hand on batches and account the time each took to arrive.

    A generator: it keeps its names between two batches, so that a fetch costs two readings of the clock and no more.
    """
    account = tracker.account
    stack, totals, clock = account.stack, account.totals, account.clock
    fetch = iter(source).__next__
    while True:
        try:
            if stack[-1] == LOOP:
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
        if call.keeps_batch:
            call.batch = batch
        yield batch


class TimedIterable:
    """Stands in for what a trainer is about to call `iter` on."""

    __slots__ = ("_call", "_source", "_tracker")

    def __init__(self, source: Any, tracker: Tracker, call: ActiveCall) -> None:
        self._source = source
        self._tracker = tracker
        self._call = call

    def __iter__(self) -> Iterator[Any]:
        return timed(self._source, self._tracker, self._call)

    def __len__(self) -> int:
        return len(self._source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

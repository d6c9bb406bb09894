"""The wait for the next batch, where a trainer fetches in Python (JAX, torch, eager steps)."""

from __future__ import annotations

from collections.abc import Iterator
from threading import get_ident
from typing import Any

from fitdoctor.probes import account as acc
from fitdoctor.probes.install import hide
from fitdoctor.probes.steps import Tracker


class TimedIterator:
    """Hands on batches and accounts the time each took to arrive."""

    __slots__ = ("_account", "_recorder", "_source", "_tracker")

    def __init__(self, source: Iterator[Any], tracker: Tracker) -> None:
        self._source = source
        self._tracker = tracker
        self._account = tracker.account
        self._recorder = tracker.recorder

    def __iter__(self) -> TimedIterator:
        return self

    def __next__(self) -> Any:
        tracker, recorder = self._tracker, self._recorder
        call = tracker.fitting or tracker.loop
        if call is None or not call.in_loop or not recorder.live or get_ident() != recorder.owner:
            return next(self._source)
        account = self._account
        stack, totals, clock = account.stack, account.totals, account.clock
        now = clock()
        totals[stack[-1]] += now - account.last
        account.last = now
        stack.append(acc.FETCH)
        try:
            batch = next(self._source)
        except BaseException as error:
            account.leave()
            hide(error)
            raise
        now = clock()
        totals[acc.FETCH] += now - account.last
        account.last = now
        stack.pop()
        if call.keeps_batch:
            call.batch = batch
        return batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class TimedIterable:
    """Stands in for what a trainer is about to call `iter` on."""

    __slots__ = ("_source", "_tracker")

    def __init__(self, source: Any, tracker: Tracker) -> None:
        self._source = source
        self._tracker = tracker

    def __iter__(self) -> TimedIterator:
        return TimedIterator(iter(self._source), self._tracker)

    def __len__(self) -> int:
        return len(self._source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

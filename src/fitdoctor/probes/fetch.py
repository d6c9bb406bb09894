"""The wait for the next batch, where a trainer fetches in Python (JAX, torch, eager steps)."""

from __future__ import annotations

from collections.abc import Iterator
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
        tracker = self._tracker
        call = tracker.fitting or tracker.loop
        if call is None or not call.in_loop or not self._recorder.mine():
            return next(self._source)
        account = self._account
        account.enter(acc.FETCH)
        try:
            batch = next(self._source)
            if call.keeps_batch:
                call.batch = batch
            return batch
        except BaseException as error:
            hide(error)
            raise
        finally:
            account.leave()

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

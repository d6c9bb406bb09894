"""Blocks of batches: a beginning is shared by the batches that follow it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from fitdoctor.rewrites import pulling
from fitdoctor.rewrites.pulling import Puller

FILL_MS, EACH_MS = 340, 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands still but where data moves it."""
    now = SimpleNamespace(ns=0)
    monkeypatch.setattr(
        pulling, "time", SimpleNamespace(perf_counter_ns=lambda: now.ns, perf_counter=lambda: now.ns / 1e9)
    )
    return now


def _shuffled(clock: SimpleNamespace, count: int) -> Iterator[int]:
    """Yield batches of which the first has to wait until a buffer is full."""
    for place in range(count):
        clock.ns += (EACH_MS if place else FILL_MS) * 1_000_000
        yield place


def test_what_a_beginning_costs_is_shared_by_the_whole_of_short_data(clock: SimpleNamespace) -> None:
    puller = Puller(lambda: _shuffled(clock, 16))
    mean = (FILL_MS + 15 * EACH_MS) / 16
    blocks = [puller.block() / 1e6 for _ in range(3)]
    assert blocks == pytest.approx([mean] * 3)


def test_a_block_that_begins_in_the_middle_ends_there(clock: SimpleNamespace) -> None:
    puller = Puller(lambda: _shuffled(clock, 16))
    puller.skip(5)
    assert puller.block() / 1e6 == pytest.approx((FILL_MS + 15 * EACH_MS) / 16)


def test_long_data_is_not_drawn_to_its_end(clock: SimpleNamespace) -> None:
    puller = Puller(lambda: _shuffled(clock, 1_000_000))
    puller.block()
    assert clock.ns <= 1.1e9
    before = clock.ns
    assert puller.block() / 1e6 == pytest.approx(EACH_MS)
    assert clock.ns - before <= 0.3e9

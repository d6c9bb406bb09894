"""Pulling elements in blocks, with a clock that only the pulling moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fitdoctor.errors import CannotRun
from fitdoctor.lab.experiments.prefixes import Passes

MS = 1_000_000


class Data:
    """Elements that take a while: the first of a pass, and each of the others."""

    def __init__(self, elements: int, first_ms: float, each_ms: float) -> None:
        self.now = 0
        self.passes = 0
        self.elements, self.first, self.each = elements, first_ms, each_ms

    def begin(self) -> Iterator[int]:
        self.passes += 1
        for place in range(self.elements):
            self.now += int((self.each if place else self.first) * MS)
            yield place

    def puller(self) -> Passes:
        return Passes(self.begin, lambda: self.now)


def test_a_shuffle_that_holds_all_elements_is_pulled_pass_by_pass() -> None:
    data = Data(elements=16, first_ms=800, each_ms=0.1)
    puller = data.puller()
    per_pull = [puller.block() / MS for _ in range(4)]
    assert per_pull == pytest.approx([(800 + 15 * 0.1) / 16] * 4)
    assert data.passes == 4


def test_a_long_pass_is_left_in_the_middle_and_gone_on_with() -> None:
    data = Data(elements=10**9, first_ms=300, each_ms=1)
    puller = data.puller()
    first, *later = (puller.block() / MS for _ in range(4))
    assert first == pytest.approx(2, rel=0.01), "half of a block of 600 ms is the first element"
    assert later == pytest.approx([1.0] * 3)
    assert data.passes == 1


def test_short_passes_make_a_block_together() -> None:
    data = Data(elements=4, first_ms=10, each_ms=2)
    assert data.puller().block() / MS == pytest.approx(4)
    assert data.passes > 1


def test_data_that_cannot_be_begun_anew() -> None:
    with pytest.raises(CannotRun, match="used up"):
        Passes(lambda: iter(())).block()

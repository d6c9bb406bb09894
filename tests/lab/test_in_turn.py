"""A generator that a thread of the watched training is still inside of."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from fitdoctor.errors import CannotRun
from fitdoctor.lab import in_turn


def test_the_lab_waits_until_the_other_is_out() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def batches() -> Iterator[int]:
        for number in range(3):
            inside.set()
            assert go_on.wait(30)
            yield number

    generator = batches()
    got: list[int] = []
    other = threading.Thread(target=lambda: got.append(next(generator)))
    other.start()
    assert inside.wait(30)
    waits: list[float] = []

    def rest(seconds: float) -> None:
        waits.append(seconds)
        go_on.set()
        other.join(30)

    assert in_turn.draw(generator, rest=rest) == 1
    assert got == [0]
    assert len(waits) == 1


def test_it_does_not_wait_for_ever() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def batches() -> Iterator[int]:
        inside.set()
        assert go_on.wait(30)
        yield 0

    generator = batches()
    other = threading.Thread(target=lambda: next(generator))
    other.start()
    assert inside.wait(30)
    now = iter(range(0, 1000, 20))
    with pytest.raises(CannotRun, match="still making a batch"):
        in_turn.draw(generator, clock=lambda: float(next(now)), rest=lambda seconds: None)
    go_on.set()
    other.join(30)


def test_what_the_user_raises_is_his() -> None:
    def batches() -> Iterator[int]:
        yield 1
        raise ValueError("no such picture")

    drawn = in_turn.shared(batches())
    assert next(drawn) == 1
    with pytest.raises(ValueError, match="no such picture"):
        next(drawn)


def test_only_generators_are_shared() -> None:
    assert list(in_turn.shared(number for number in range(3))) == [0, 1, 2]
    data = [1, 2]
    assert in_turn.shared(data) is data

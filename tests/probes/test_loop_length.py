"""A hand-written loop says how long it would have been."""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fitdoctor.probes.loop_length import planned

EPOCHS = 5
STEPS = 40
DATA = list(range(8))
CONFIG = {"epochs": 3}


class Stop(Exception):
    def __init__(self, found: int | None) -> None:
        self.found = found


class Watched:
    """Stands for the tracker: counts steps and asks after some of them, with the loop still on the stack."""

    def __init__(self, after: int, per_pass: int | None = None) -> None:
        self.steps = 0
        self.after = after
        self.per_pass = per_pass

    def step(self, *_: Any) -> None:
        self.steps += 1
        if self.steps == self.after:
            raise Stop(planned(sys._getframe(1), self.steps, self.per_pass))


def asked(loop: Callable[[Watched], None], after: int, per_pass: int | None = None) -> int | None:
    with pytest.raises(Stop) as stopped:
        loop(Watched(after, per_pass))
    return stopped.value.found


def tqdm(iterable: Any, desc: str = "") -> Any:
    """Stands for a progress bar."""
    return iter(iterable)


def epochs_of_data(watched: Watched) -> None:
    for _epoch in range(EPOCHS):
        for batch in DATA:
            watched.step(batch)


def plain_range(watched: Watched) -> None:
    for _step in range(STEPS):
        watched.step()


def backwards(watched: Watched) -> None:
    for _step in range(STEPS, 0, -2):
        watched.step()


def counted(watched: Watched) -> None:
    for _epoch in tqdm(range(1, EPOCHS + 1), desc="training"):
        for _number, batch in enumerate(tqdm(DATA), start=1):
            watched.step(batch)


def arguments(watched: Watched) -> None:
    args = argparse.Namespace(epochs=2, batch=2)
    for _epoch in range(args.epochs):
        for first in range(0, len(DATA), args.batch):
            watched.step(first)


def rounded(watched: Watched) -> None:
    for _epoch in range(CONFIG["epochs"]):
        for first in range(math.ceil(len(DATA) / 3)):
            watched.step(first)


def every_other_turn(watched: Watched) -> None:
    for turn in range(STEPS):
        if turn % 2:
            watched.step()


def twice_a_turn(watched: Watched) -> None:
    for _turn in range(STEPS):
        watched.step()
        watched.step()


def inside_functions(watched: Watched) -> None:
    def one_epoch() -> None:
        for batch in DATA:
            watched.step(batch)

    for _epoch in range(EPOCHS):
        one_epoch()


@pytest.mark.parametrize(
    ("loop", "after", "expected"),
    [
        (epochs_of_data, 1, 40),
        (epochs_of_data, 8, 40),
        (epochs_of_data, 9, 40),
        (epochs_of_data, 40, 40),
        (plain_range, 7, 40),
        (backwards, 7, 20),
        (counted, 13, 40),
        (arguments, 5, 8),
        (rounded, 4, 9),
        (every_other_turn, 10, 20),
        (twice_a_turn, 20, 80),
        (inside_functions, 11, 40),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_the_length_is_read(loop: Callable[[Watched], None], after: int, expected: int) -> None:
    assert asked(loop, after) == expected


def while_loop(watched: Watched) -> None:
    while True:
        watched.step()


def generator(watched: Watched) -> None:
    def batches() -> Iterator[int]:
        yield from DATA

    for batch in batches():
        watched.step(batch)


def endless(watched: Watched) -> None:
    for _epoch in itertools.count():
        for batch in DATA:
            watched.step(batch)


def epochs_unnumbered(watched: Watched) -> None:
    for _name in ("first", "second"):
        for batch in DATA:
            watched.step(batch)


def data_that_lies(watched: Watched) -> None:
    for _epoch in range(EPOCHS):
        for batch in DATA:
            watched.step(batch)
            watched.step(batch)


def assigned(watched: Watched) -> None:
    for epoch in range(EPOCHS):
        epoch = 99
        for batch in DATA:
            watched.step(batch, epoch)


class Properties:
    @property
    def epochs(self) -> int:
        raise AssertionError("the user's code was run")


def properties(watched: Watched) -> None:
    def one_epoch() -> None:
        for batch in DATA:
            watched.step(batch)

    config, first = Properties(), True
    for _epoch in range(1 if first else config.epochs):
        one_epoch()


def no_loop(watched: Watched) -> None:
    watched.step()


@pytest.mark.parametrize(
    ("loop", "after"),
    [
        (while_loop, 5),
        (generator, 5),
        (endless, 5),
        (epochs_unnumbered, 5),
        (data_that_lies, 9),
        (assigned, 9),
        (properties, 3),
        (no_loop, 1),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_nothing_is_made_up(loop: Callable[[Watched], None], after: int) -> None:
    assert asked(loop, after) is None


def epochs_of_batches(watched: Watched) -> None:
    def batches() -> Iterator[int]:
        yield from DATA

    for _epoch in range(EPOCHS):
        for batch in batches():
            watched.step(batch)


def test_data_that_was_seen_to_end_needs_not_say() -> None:
    assert asked(epochs_of_batches, 11) is None
    assert asked(epochs_of_batches, 11, per_pass=8) == 40
    assert asked(endless, 11, per_pass=8) is None
    assert asked(while_loop, 11, per_pass=8) is None


@pytest.mark.parametrize("after", [2, 8, 9, 40])
def test_the_step_that_opened_the_loop_is_not_counted(after: int) -> None:
    """A loop is recognised by its first step: after the first one of an epoch as many are counted as were before it."""

    class Opened(Watched):
        def step(self, *_: Any) -> None:
            self.steps += 1
            if self.steps == self.after:
                raise Stop(planned(sys._getframe(1), self.steps - 1))

    with pytest.raises(Stop) as stopped:
        epochs_of_data(Opened(after))
    assert stopped.value.found == 40

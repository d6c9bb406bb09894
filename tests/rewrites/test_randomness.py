"""Generators are found, watched, put back and seeded."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from fitdoctor.errors import UsageError
from fitdoctor.model import Interval
from fitdoctor.rewrites import randomness, workers
from fitdoctor.rewrites.loader_batches import Compared
from fitdoctor.rewrites.workers import _best, _Candidate, _reason, _Tried, in_turns, optimize_loader

module_rng = np.random.default_rng(9)


class Transform:
    def __init__(self) -> None:
        self.chance = random.Random(3)


class Loader:
    def __init__(self) -> None:
        self.files = ["a"] * 100_000
        self.rng = np.random.default_rng(1)
        self.old = np.random.RandomState(2)
        self.transforms = [Transform()]


def drawn(loader: Loader) -> list[float]:
    own = [float(loader.rng.random()), float(loader.old.rand()), loader.transforms[0].chance.random()]
    return [*own, random.random(), float(np.random.rand()), float(module_rng.random())]


def test_generators_of_a_loader_its_parts_and_its_module_are_found() -> None:
    names = {name for name, _ in randomness.own(Loader())}
    assert names == {"Loader.rng", "Loader.old", "Loader.transforms[0].chance", "module_rng"}


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda loader: loader.rng.random(), "Loader.rng"),
        (lambda loader: loader.transforms[0].chance.random(), "Loader.transforms[0].chance"),
        (lambda loader: np.random.rand(), "numpy.random"),
        (lambda loader: random.random(), "random"),
        (lambda loader: np.random.seed(0), "numpy.random"),
    ],
)
def test_what_was_used_is_named(draw: Any, name: str) -> None:
    loader = Loader()
    with randomness.unchanged(loader), randomness.watched(loader) as used:
        assert used() == []
        draw(loader)
        assert used() == [name]


def test_everything_is_put_back() -> None:
    loader = Loader()
    with randomness.unchanged(loader):
        first = drawn(loader)
    assert drawn(loader) == first


def test_streams_depend_on_every_part_of_the_place() -> None:
    loader, streams = Loader(), []
    with randomness.unchanged(loader):
        for place in ((1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0), (1, 0, 0)):
            randomness.reseed(loader, *place)
            streams.append(drawn(loader))
    assert streams[0] == streams[-1]
    numbers = [number for stream in streams[:-1] for number in stream]
    assert len(set(numbers)) == len(numbers), "no generator repeats another, in any place"


def test_the_script_s_seed_makes_the_base() -> None:
    with randomness.unchanged(None):
        bases = []
        for seed in (1, 1, 2):
            np.random.seed(seed)
            random.seed(seed)
            bases.append(randomness.base_seed())
        state = random.getstate()
        randomness.base_seed()
        assert random.getstate() == state, "nothing is drawn for it"
    assert bases[0] == bases[1] != bases[2]


# --- which candidate is kept ------------------------------------------------------------------------------


def tried(name: str, *ratio: float, equal: bool = True) -> _Tried:
    return _Tried(_Candidate(name, lambda: (None, lambda: None)), Interval(*ratio), Compared(equal, 10, True))


def test_faster_in_every_turn_and_equal_or_dropped() -> None:
    assert _reason(tried("workers=2", 0.5, 0.6, 0.9)) == ""
    assert "60 %" in _reason(tried("workers=2", 0.5, 0.6, 1.01))
    assert "not those of the original" in _reason(tried("workers=2", 0.5, 0.6, 0.7, equal=False))


def test_more_workers_must_be_clearly_faster() -> None:
    two, four = tried("workers=2", 0.5, 0.5, 0.5), tried("workers=4", 0.47, 0.47, 0.47)
    eight = tried("workers=8", 0.2, 0.2, 0.2)
    assert _best([four, two]) is two
    assert _best([four, two, eight]) is eight
    assert _best([]) is None


def test_turns_alternate() -> None:
    order: list[str] = []

    def one() -> float:
        order.append("one")
        return 10.0

    def other() -> float:
        order.append("other")
        return 5.0

    assert in_turns(one, other, until=0.0) == Interval.exact(0.5)
    assert order == ["other", "one", "one", "other"] * (workers.FEWEST_TURNS // 2)


def test_what_is_no_loader_is_refused() -> None:
    with pytest.raises(UsageError, match="got list"):
        optimize_loader([1, 2])

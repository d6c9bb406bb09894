"""Which fixes are kept, from proofs made up on the spot."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fitdoctor.model import Interval, Proof
from fitdoctor.proof.kept import Outcome, Places, decide


def proof(speed: float) -> Proof:
    verdict = "PROVED" if speed > 1.01 else "REFUTED" if speed < 0.99 else "NO_EFFECT"
    around = Interval(speed - 0.005, speed, speed + 0.005)
    one = Interval.exact(1.0)
    return Proof(("before", "after"), one, one, one, one, around, "identical", ((), ()), verdict, "made up")


class World:
    """Speeds of sets of fixes; what is not said is the product of its members'."""

    def __init__(self, speeds: Mapping[int, float], sets: Mapping[Places, float] | None = None) -> None:
        self.now = 0.0
        self.speeds, self.sets = speeds, sets or {}
        self.given: list[tuple[Places, float]] = []

    def prove(self, places: Places, seconds: float) -> Proof:
        self.given.append((places, seconds))
        self.now += seconds
        speed = self.sets.get(places)
        if speed is None:
            speed = 1.0
            for place in places:
                speed *= self.speeds[place]
        return proof(speed)

    def decide(self, *, one_by_one: bool = False) -> Outcome:
        return decide(sorted(self.speeds), self.prove, seconds=600, one_by_one=one_by_one, clock=lambda: self.now)


def kept(outcome: Outcome) -> set[int]:
    return set(outcome.kept.places) if outcome.kept is not None else set()


def test_one_fix_gets_all_the_time() -> None:
    world = World({3: 2.0})
    assert kept(world.decide()) == {3}
    assert world.given == [({3}, 600)]


def test_one_that_does_not_help_is_not_kept() -> None:
    assert kept(World({0: 1.0}).decide()) == set()
    assert kept(World({0: 0.8}).decide()) == set()


def test_what_is_proved_together_is_kept_without_asking_further() -> None:
    world = World({0: 1.5, 1: 1.2})
    assert kept(world.decide()) == {0, 1}
    assert len(world.given) == 1


def test_what_spoils_the_rest_is_dropped_and_the_rest_proved_again() -> None:
    world = World({0: 1.3, 1: 0.5, 2: 1.2})
    outcome = world.decide()
    assert kept(outcome) == {0, 2}
    assert [set(each.places) for each in outcome.tried] == [{0, 1, 2}, {0}, {1}, {2}, {0, 2}]
    assert outcome.alone(1) is not None
    assert world.now <= 600 * 1.001, "within the time"


def test_on_request_each_is_proved_by_itself() -> None:
    outcome = World({0: 1.3, 1: 1.0}).decide(one_by_one=True)
    assert kept(outcome) == {0}, "the other does nothing"
    assert kept(World({0: 1.3, 1: 1.2}).decide(one_by_one=True)) == {0, 1}


def test_fixes_that_help_only_together_are_kept_together() -> None:
    world = World({0: 1.0, 1: 1.0}, {frozenset({0, 1}): 1.4})
    assert kept(world.decide(one_by_one=True)) == {0, 1}


def test_fixes_that_help_only_apart_leave_the_best() -> None:
    assert kept(World({0: 1.1, 1: 1.3}, {frozenset({0, 1}): 1.0}).decide()) == {1}
    three = World({0: 1.1, 1: 1.3, 2: 0.7}, {frozenset({0, 1}): 0.9})
    assert kept(three.decide()) == {1}


class Slow(World):
    """A proof takes a few runs at least, however little time is given."""

    def prove(self, places: Places, seconds: float) -> Proof:
        self.now += max(0.0, 160 - seconds)
        return super().prove(places, seconds)


def test_where_the_time_is_up_no_more_are_tried() -> None:
    world = Slow({0: 1.3, 1: 0.5, 2: 1.2, 3: 1.0, 4: 1.0, 5: 1.0, 6: 1.0})
    outcome = world.decide()
    assert kept(outcome) == {0}
    assert outcome.untried == (2, 3, 4, 5, 6), "those that matter least"
    assert world.now < 600 + 160


def test_the_one_that_matters_most_is_tried_in_any_case() -> None:
    world = Slow({0: 1.3, 1: 0.5})
    outcome = decide([0, 1], world.prove, seconds=100, clock=lambda: world.now)
    assert (kept(outcome), outcome.untried) == ({0}, (1,))


def test_what_was_proved_together_is_kept_where_the_time_for_each_is_up() -> None:
    outcome = Slow(dict.fromkeys(range(6), 1.1)).decide(one_by_one=True)
    assert outcome.untried == (2, 3, 4, 5)
    assert kept(outcome) == set(range(6)), "nothing is dropped for want of time"


@pytest.mark.parametrize("speeds", [{0: 0.9, 1: 0.9}, {0: 1.0, 1: 0.95, 2: 1.0}])
def test_what_is_kept_was_proved(speeds: dict[int, float]) -> None:
    assert kept(World(speeds).decide()) == set()

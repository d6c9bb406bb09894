from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitdoctor.probes import account as acc
from fitdoctor.probes.account import Account


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_time_belongs_to_the_top_of_the_stack(clock: Clock) -> None:
    account = Account(0, clock)
    clock.now = 10
    account.enter(acc.HOOKS)
    clock.now = 30
    account.enter(acc.SAVING)
    clock.now = 60
    account.leave()
    clock.now = 65
    account.leave()
    clock.now = 100
    account.settle()
    assert account.totals[acc.SETUP] == 10 + 35
    assert account.totals[acc.HOOKS] == 20 + 5
    assert account.totals[acc.SAVING] == 30


def test_a_step_is_what_its_buckets_owned_since_the_last(clock: Clock) -> None:
    account = Account(0, clock)
    account.switch(acc.LOOP)
    account.step()
    account.enter(acc.FETCH)
    clock.now = 7
    account.leave()
    account.enter(acc.RUN)
    clock.now = 10
    account.leave()
    clock.now = 11
    account.settle()
    parts = account.step()
    assert parts[acc.FETCH] == 7
    assert parts[acc.RUN] == 3
    assert parts[acc.LOOP] == 1
    assert account.step() == [0] * 6


def test_what_follows_the_last_step_of_an_epoch_is_no_step(clock: Clock) -> None:
    account = Account(0, clock)
    account.switch(acc.LOOP)
    account.step()
    clock.now = 40
    account.reclassify(acc.BETWEEN)
    assert account.totals[acc.BETWEEN] == 40
    assert account.step() == [0] * 6


def test_move_never_takes_more_than_there_is(clock: Clock) -> None:
    account = Account(0, clock)
    clock.now = 5
    account.move(acc.COMPILING, 50)
    assert account.totals[acc.COMPILING] == 5
    assert account.totals[acc.SETUP] == 0


def test_unwind_drops_what_an_exception_left(clock: Clock) -> None:
    account = Account(0, clock)
    account.enter(acc.RUN)
    account.enter(acc.FETCH)
    account.unwind(1)
    assert account.depth == 1
    account.leave()
    assert account.depth == 1, "the bottom never goes"


events = st.lists(
    st.tuples(
        st.sampled_from(["enter", "leave", "switch", "step", "reclassify", "move"]),
        st.integers(0, 14),
        st.integers(0, 99),
    )
)


@given(events)
def test_every_nanosecond_belongs_to_exactly_one_phase(happenings: list[tuple[str, int, int]]) -> None:
    clock = Clock()
    account = Account(0, clock)
    for what, bucket, wait in happenings:
        clock.now += wait
        if what == "enter":
            account.enter(bucket)
        elif what == "leave":
            account.leave()
        elif what == "switch":
            account.switch(bucket)
        elif what == "step":
            account.settle()
            account.totals[acc.STEADY] += sum(account.step())
        elif what == "reclassify":
            account.reclassify(acc.BETWEEN)
        elif bucket > acc.LOOP and account.top > acc.LOOP:
            account.move(bucket, wait)
    clock.now += 3
    assert sum(account.phases().values()) == pytest.approx(clock.now / 1e9, abs=1e-12)

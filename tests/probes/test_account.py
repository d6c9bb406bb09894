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


def test_what_is_carved_out_of_the_loop_was_the_loops(clock: Clock) -> None:
    account = Account(0, clock)
    account.switch(acc.LOOP)
    owned, last = account.totals[acc.LOOP], account.last
    clock.now = 7
    account.carve(acc.FETCH, 2, 7, owned, last)
    clock.now = 11
    account.settle()
    assert account.totals[acc.FETCH] == 5
    assert account.totals[acc.LOOP] == 6


def test_what_turned_the_stack_meanwhile_keeps_its_part(clock: Clock) -> None:
    account = Account(0, clock)
    account.switch(acc.LOOP)
    clock.now = 1
    owned, last = account.totals[acc.LOOP], account.last
    clock.now = 3
    account.enter(acc.COMPILING)
    clock.now = 10
    account.leave()
    clock.now = 14
    account.carve(acc.RUN, 1, 14, owned, last)
    account.settle()
    assert account.totals[acc.COMPILING] == 7
    assert account.totals[acc.RUN] == 2 + 4
    assert account.totals[acc.LOOP] == 1


def test_a_carving_inside_a_carving_is_not_counted_twice(clock: Clock) -> None:
    account = Account(0, clock)
    account.switch(acc.LOOP)
    outer = account.totals[acc.LOOP], account.last
    clock.now = 6
    account.carve(acc.FETCH, 2, 6, *outer)
    clock.now = 10
    account.carve(acc.RUN, 0, 10, *outer)
    account.settle()
    assert account.totals[acc.FETCH] == 4
    assert account.totals[acc.RUN] == 6
    assert account.totals[acc.LOOP] == 0


def test_what_follows_the_last_step_of_an_epoch_is_no_step(clock: Clock) -> None:
    account = Account(0, clock)
    account.switch(acc.LOOP)
    account.step()
    clock.now = 40
    account.reclassify(acc.BETWEEN)
    assert account.totals[acc.BETWEEN] == 40
    assert account.totals[acc.LOOP] == 0


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
            account.totals[acc.STEADY] += sum(account.totals[: len(account.marks)]) - sum(account.marks)
            account.step()
        elif what == "reclassify":
            account.reclassify(acc.BETWEEN)
        elif bucket > acc.LOOP and account.top > acc.LOOP:
            account.move(bucket, wait)
    clock.now += 3
    assert sum(account.phases().values()) == pytest.approx(clock.now / 1e9, abs=1e-12)

"""Long runs of short steps are watched in turns with rests: nothing is lost but what a step went to."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from fitdoctor.model import Steps
from fitdoctor.probes import account as acc
from fitdoctor.probes.callback_list import CallbackListProbe
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.fetch import timed
from fitdoctor.probes.fit import FitProbe
from fitdoctor.probes.install import Patches
from fitdoctor.probes.recorder import Recorder
from fitdoctor.probes.rests import SEEN_NS, Drawn
from fitdoctor.probes.steps import UNSTEADY_STEPS, Tracker

FETCH_NS, RUN_NS, LOOP_NS = 300_000, 600_000, 100_000
STEP_NS = FETCH_NS + RUN_NS + LOOP_NS
TICK_NS = 1_000_000_000
WALL, FLAGS, COUNT = 5, 11, 3


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Kept:
    """Keeps the rows it is given."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, ...]] = []

    def write(self, rows: Any) -> None:
        self.steps += rows.get("steps", [])


class Model:
    """Stands in for Keras's: somewhere to look the train function up."""

    train_function: Any


class Training:
    """A `fit` on the clock of the test: every step takes 1 ms."""

    def __init__(self, *, capped: bool = False, step_factor: int = 1) -> None:
        self.clock, self.kept = Clock(), Kept()
        self.factor = step_factor
        self.recorder = Recorder(self.kept, 0, self.clock)  # type: ignore[arg-type]
        self.tracker = Tracker(self.recorder)
        if capped:
            self.tracker.on_step = lambda call: None
        self.patches = Patches(self.recorder)
        fit = FitProbe(self.tracker, self.patches, lambda *_: None)
        call = self.tracker.begin("fit", None, acc.SETUP)
        assert call is not None
        self.call: ActiveCall = call
        self.call.info.update(backend="torch", steps_per_epoch=20_000)
        self.model = Model()
        self.model.train_function = self.own = lambda *_: self.passes(RUN_NS)
        fit._time_train_function(self.model, call)
        self.call.warmth[0] = UNSTEADY_STEPS

        class CallbackList:
            def on_train_batch_end(self, batch: int, logs: Any = None) -> None: ...

        self.callbacks = CallbackList()
        self.own_end = CallbackList.on_train_batch_end
        probe = CallbackListProbe(self.tracker, self.patches, lambda _: None, lambda: None)
        self.patches.wrap(CallbackList, "on_train_batch_end", probe.batch_end, every_step=True)

    def passes(self, nanoseconds: int) -> None:
        ticks = self.clock.now // TICK_NS
        self.clock.now += nanoseconds * self.factor
        if self.clock.now // TICK_NS > ticks:
            self.tracker.wake()

    def batches(self) -> Any:
        while True:
            self.passes(FETCH_NS)
            yield None

    def epoch(self, number: int, steps: int) -> None:
        self.begin(number)
        fetch = timed(self.batches(), self.tracker)
        for _ in range(steps):
            next(self.drawn)
            next(fetch)
            self.step()
        self.tracker.loop_ended(self.call)

    def step(self) -> None:
        self.model.train_function(None)
        self.passes(LOOP_NS)
        self.callbacks.on_train_batch_end(0, None)

    def begin(self, number: int) -> None:
        self.tracker.loop_started(self.call, number)
        self.tracker.account.switch(acc.LOOP)
        self.call.drawn = Drawn()
        self.drawn = self.call.drawn.through(itertools.count())

    def rows(self) -> list[tuple[Any, ...]]:
        self.recorder.flush()
        return self.kept.steps


def counted(rows: list[tuple[Any, ...]], flags: int) -> tuple[int, int]:
    chosen = [row for row in rows if row[FLAGS] == flags]
    return sum(row[COUNT] for row in chosen), sum(row[WALL] for row in chosen)


def test_no_step_and_no_time_is_lost() -> None:
    training = Training()
    training.epoch(0, 20_000)
    rows = training.rows()
    full, full_ns = counted(rows, 0)
    rested, rested_ns = counted(rows, Steps.RESTED)
    assert full + rested == 20_000
    assert full_ns == full * STEP_NS
    assert rested_ns == rested * STEP_NS
    assert training.tracker.steady_steps == 20_000
    assert training.tracker.rested_steps == rested


def test_the_first_seconds_are_watched_whole_and_a_tenth_of_the_rest() -> None:
    training = Training()
    training.epoch(0, 20_000)
    rows = training.rows()
    first = next(row for row in rows if row[FLAGS] == Steps.RESTED)
    assert first[4] >= SEEN_NS
    watched, _ = counted(rows, 0)
    assert watched == pytest.approx(SEEN_NS / STEP_NS + 0.1 * (20_000 - SEEN_NS / STEP_NS), rel=0.1)


def test_what_is_watched_tells_what_a_step_goes_to() -> None:
    training = Training()
    training.epoch(0, 20_000)
    for row in training.rows():
        if row[FLAGS] == 0:
            assert row[6] == row[COUNT] * FETCH_NS
            assert row[8] == row[COUNT] * RUN_NS


def test_short_epochs_fall_into_both() -> None:
    training = Training()
    for number in range(400):
        training.epoch(number, 50)
    rows = training.rows()
    full, _ = counted(rows, 0)
    rested, _ = counted(rows, Steps.RESTED)
    assert full + rested == 20_000
    assert rested > 10_000
    late = [row for row in rows if row[4] > 10e9 and row[FLAGS] == 0]
    assert sum(row[COUNT] for row in late) > 500


def until_it_rests(training: Training) -> None:
    training.epoch(0, 4_000)
    training.begin(1)
    while not training.tracker.resting:
        next(training.drawn)
        training.step()


def test_hooks_are_gone_in_a_rest_and_come_back() -> None:
    training = Training()
    until_it_rests(training)
    assert training.model.train_function is training.own
    assert type(training.callbacks).on_train_batch_end is training.own_end
    training.tracker.wake()
    assert training.model.train_function is not training.own
    assert type(training.callbacks).on_train_batch_end is not training.own_end
    training.tracker.loop_ended(training.call)
    training.patches.undo()
    assert type(training.callbacks).on_train_batch_end is training.own_end


def test_what_the_user_put_in_place_meanwhile_stays() -> None:
    training = Training()
    until_it_rests(training)
    training.model.train_function = mine = lambda *_: None
    training.tracker.wake()
    assert training.model.train_function is mine


def test_hooks_do_not_come_back_after_the_observation_was_ended_in_a_rest() -> None:
    training = Training()
    until_it_rests(training)
    training.patches.undo()
    training.tracker.wake()
    assert type(training.callbacks).on_train_batch_end is training.own_end


def test_a_compilation_ends_the_rest_and_stands_alone() -> None:
    training = Training()
    tracker = training.tracker
    until_it_rests(training)
    for _ in range(10):
        next(training.drawn)
        training.step()
    next(training.drawn)
    tracker.compiled()
    training.clock.now += 5_000_000_000
    training.step()
    tracker.loop_ended(training.call)
    rows = training.rows()
    assert [row[WALL] for row in rows if row[FLAGS] & Steps.WARMUP] == [5_000_000_000 + RUN_NS + LOOP_NS]
    last = [row for row in rows if row[FLAGS] == Steps.RESTED][-1]
    assert (last[COUNT], last[WALL]) == (10, 10 * (RUN_NS + LOOP_NS))


def test_steps_are_counted_as_they_are_drawn() -> None:
    drawn = Drawn()
    steps = drawn.through(iter("abc"))
    assert drawn.count == 0
    assert next(steps) == "a"
    assert drawn.count == 1
    assert list(steps) == ["b", "c"]
    assert drawn.count == 3


@pytest.mark.parametrize("training", [Training(capped=True), Training(step_factor=20)], ids=["capped", "long steps"])
def test_capped_runs_and_long_steps_never_rest(training: Training) -> None:
    training.epoch(0, 5_000)
    assert training.tracker.rested_steps == 0
    assert counted(training.rows(), 0)[0] == 5_000


def test_no_step_is_lost_where_something_is_compiled_after_the_last() -> None:
    training = Training()
    until_it_rests(training)
    for _ in range(10):
        next(training.drawn)
        training.step()
    before = training.tracker.steady_steps
    training.tracker.compiled()
    training.tracker.loop_ended(training.call)
    assert training.tracker.steady_steps == before + 10

"""Long runs of short steps are watched in turns with rests: nothing is lost but what a step went to."""

from __future__ import annotations

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
from fitdoctor.probes.steps import SEEN_NS, UNSTEADY_STEPS, Tracker

FETCH_NS, RUN_NS, LOOP_NS = 300_000, 600_000, 100_000
STEP_NS = FETCH_NS + RUN_NS + LOOP_NS
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


class Training:
    """A `fit` on the clock of the test: every step takes 1 ms."""

    def __init__(self, *, capped: bool = False, step_factor: int = 1) -> None:
        self.clock, self.kept = Clock(), Kept()
        self.factor = step_factor
        self.recorder = Recorder(self.kept, 0, self.clock)  # type: ignore[arg-type]
        self.tracker = Tracker(self.recorder)
        if capped:
            self.tracker.on_step = lambda call: None
        patches = Patches(self.recorder)
        fit = FitProbe(self.tracker, patches, lambda *_: None)
        call = self.tracker.begin("fit", None, acc.SETUP)
        assert call is not None
        self.call: ActiveCall = call
        self.call.warmth = [UNSTEADY_STEPS]
        self.call.info["backend"] = "torch"
        self.run = fit.timed_run(lambda *_: self.passes(RUN_NS))
        self.end = CallbackListProbe(self.tracker, patches, lambda _: None, lambda: None).batch_end(lambda *_: None)

    def passes(self, nanoseconds: int) -> None:
        self.clock.now += nanoseconds * self.factor

    def batches(self) -> Any:
        while True:
            self.passes(FETCH_NS)
            yield None

    def epoch(self, number: int, steps: int) -> None:
        self.tracker.loop_started(self.call, number)
        self.tracker.account.switch(acc.LOOP)
        fetch = timed(self.batches(), self.tracker)
        for _ in range(steps):
            next(fetch)
            self.run(None)
            self.passes(LOOP_NS)
            self.end(None, 0, None)
        self.tracker.loop_ended(self.call)

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


def test_a_compilation_ends_the_rest_and_stands_alone() -> None:
    training = Training()
    tracker = training.tracker
    training.epoch(0, 4_000)
    tracker.loop_started(training.call, 1)
    tracker.account.switch(acc.LOOP)
    while not tracker.resting:
        training.run(None)
        training.end(None, 0, None)
    for _ in range(10):
        training.run(None)
        training.end(None, 0, None)
    tracker.compiled()
    training.passes(5_000_000_000)
    training.run(None)
    training.end(None, 0, None)
    tracker.loop_ended(training.call)
    warm_up = [row for row in training.rows() if row[FLAGS] & Steps.WARMUP]
    assert [row[WALL] for row in warm_up] == [5_000_000_000 + RUN_NS]
    assert [row[WALL] for row in training.rows() if row[FLAGS] == Steps.RESTED][-1] == 10 * RUN_NS


@pytest.mark.parametrize("training", [Training(capped=True), Training(step_factor=20)], ids=["capped", "long steps"])
def test_capped_runs_and_long_steps_never_rest(training: Training) -> None:
    training.epoch(0, 5_000)
    assert training.tracker.rested_steps == 0
    assert counted(training.rows(), 0)[0] == 5_000

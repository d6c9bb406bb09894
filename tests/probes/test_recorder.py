from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fitdoctor.model import Site, Steps
from fitdoctor.probes import account as acc
from fitdoctor.probes import own_cost
from fitdoctor.probes import recorder as recording
from fitdoctor.probes.recorder import Recorder
from fitdoctor.probes.steps import FOLDED_ROWS, UNSTEADY_STEPS, Tracker


class Memory:
    def __init__(self) -> None:
        self.tables: dict[str, list[Sequence[Any]]] = {}
        self.full = False

    def write(self, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        for table, values in rows.items():
            self.tables.setdefault(table, []).extend(values)


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def test_rows_reach_the_sink_once_and_in_order() -> None:
    sink = Memory()
    recorder = Recorder(sink, 0, Clock())
    for i in range(3):
        recorder.step((1, 0, i, 1, i * 10, 7, 1, 0, 5, 0, 0, 0))
    recorder.flush()
    recorder.flush()
    assert [row[2] for row in sink.tables["steps"]] == [0, 1, 2]


def test_a_gap_is_said_once() -> None:
    sink = Memory()
    recorder = Recorder(sink, 0, Clock())
    recorder.gap("a", "b", "c")
    recorder.gap("a", "b", "c")
    recorder.flush()
    assert sink.tables["gaps"] == [("a", "b", "c")]


def test_a_full_disk_ends_the_observation_not_the_training() -> None:
    sink = Memory()
    recorder = Recorder(sink, 0, Clock())
    sink.full = True
    recorder.meta(x=1)
    recorder.flush()
    assert not recorder.live
    assert recorder.lost is not None
    assert "No space left" in recorder.lost.reason
    recorder.meta(x=2)
    recorder.flush()


def test_a_failing_probe_lets_go() -> None:
    recorder = Recorder(Memory(), 0, Clock())
    assert recorder.mine()
    recorder.fail("fit", ValueError("broken"))
    assert not recorder.mine()


def test_very_long_runs_are_thinned_and_lose_no_time(monkeypatch: Any) -> None:
    monkeypatch.setattr(recording, "FULL_ROWS", 10)
    sink = Memory()
    recorder = Recorder(sink, 0, Clock())
    for i in range(1000):
        recorder.step((1, 0, i, 1, i * 7, 7, 2, 0, 4, 0, 0, 0))
    recorder.close()
    rows = sink.tables["steps"]
    assert len(rows) < 200
    assert sum(row[3] for row in rows) == 1000
    assert sum(row[5] for row in rows) == 7000


def test_warm_up_steps_are_told_from_steady_ones() -> None:
    sink, clock = Memory(), Clock()
    recorder = Recorder(sink, 0, clock)
    tracker = Tracker(recorder)
    call = tracker.begin("fit", Site("train.py", 3), acc.SETUP)
    tracker.loop_started(call, 0)
    recorder.account.switch(acc.LOOP)
    for i in range(6):
        clock.now += 5
        if i == 4:
            tracker.compiled()  # a retrace in the middle
        tracker.step_done(call)
    tracker.loop_ended(call)
    tracker.end(call, 1)
    recorder.flush()
    flags = [row[11] & Steps.WARMUP for row in sink.tables["steps"]]
    assert flags == [1] * UNSTEADY_STEPS + [0, 0, 1, 0]
    assert tracker.steady_steps == 6 - UNSTEADY_STEPS - 1


def test_watching_is_told_per_step_where_every_step_compiles() -> None:
    recorder = Recorder(Memory(), 0, Clock())
    clock = recorder.clock
    tracker = Tracker(recorder)
    call = tracker.begin("fit", Site("train.py", 3), acc.SETUP)
    tracker.loop_started(call, 0)
    recorder.account.switch(acc.LOOP)
    for _ in range(101):
        clock.now += 20_000_000
        tracker.compiled()
        tracker.step_done(call)
    tracker.loop_ended(call)
    tracker.end(call, 1)
    recorder.account.totals[acc.OWN] += 100_000_000
    told = own_cost.overhead(tracker, "torch")
    assert tracker.steady_steps == 0
    assert 1000 <= told["us_per_step_low"] <= told["us_per_step_high"] < 3000, "a tenth of a second over 100 steps"
    assert 0.05 <= told["fraction"] < 0.15, "of 20 ms"


def test_the_same_function_is_warm_in_the_next_call() -> None:
    sink, clock = Memory(), Clock()
    recorder = Recorder(sink, 0, clock)
    tracker = Tracker(recorder)
    warmth = [0]
    for _ in range(5):
        call = tracker.begin("fit", Site("train.py", 3), acc.SETUP)
        call.warmth = warmth
        tracker.loop_started(call, 0)
        clock.now += 5
        tracker.step_done(call)
        tracker.loop_ended(call)
        tracker.end(call, 1)
    assert tracker.steady_steps == 5 - UNSTEADY_STEPS


def test_many_calls_from_one_line_share_a_row(monkeypatch: Any) -> None:
    from fitdoctor.probes import steps

    monkeypatch.setattr(steps, "OWN_ROWS", 3)
    sink, clock = Memory(), Clock()
    recorder = Recorder(sink, 0, clock)
    tracker = Tracker(recorder)
    for _ in range(10):
        call = tracker.begin("predict", Site("train.py", 9), acc.REST)
        clock.now += 100
        tracker.end(call, 1)
    recorder.flush()
    rows = {row[0]: row for row in sink.tables["calls"]}
    assert len(rows) == 3
    assert sum(row[8] for row in rows.values()) == 10
    import json

    assert sum(json.loads(row[9])["total_ns"] for row in rows.values()) == 1000


def _a_fit(warm: bool = True) -> tuple[Memory, Clock, Tracker, Any]:
    sink, clock = Memory(), Clock()
    tracker = Tracker(Recorder(sink, 0, clock))
    call = tracker.begin("fit", Site("train.py", 3), acc.SETUP)
    assert call is not None
    call.warmth = [UNSTEADY_STEPS] if warm else [0]
    tracker.loop_started(call, 0)
    tracker.account.switch(acc.LOOP)
    return sink, clock, tracker, call


def test_many_short_steps_between_two_flushes_share_rows_and_lose_no_time() -> None:
    sink, clock, tracker, call = _a_fit()
    for _ in range(1000):
        start, owned, last = clock.now, tracker.account.totals[acc.LOOP], tracker.account.last
        clock.now += 5
        tracker.account.carve(acc.RUN, start, clock.now, owned, last)
        clock.now += 2
        tracker.step_done(call)
    tracker.recorder.flush()
    rows = sink.tables["steps"]
    assert len(rows) <= FOLDED_ROWS + 1
    assert sum(row[3] for row in rows) == tracker.steady_steps == 1000
    assert sum(row[5] for row in rows) == 7000
    assert sum(row[8] for row in rows) == 5000
    assert [row[2] for row in rows] == [sum(row[3] for row in rows[:i]) for i in range(len(rows))]
    assert [row[4] + row[5] for row in rows[:-1]] == [row[4] for row in rows[1:]]
    assert tracker.account.totals[acc.STEADY] == 7000


def test_a_compilation_between_ordinary_steps_is_a_row_of_its_own() -> None:
    sink, clock, tracker, call = _a_fit()
    for i in range(600):
        clock.now += 5
        if i == 300:
            tracker.compiled()
        tracker.step_done(call)
    tracker.recorder.flush()
    flagged = [row for row in sink.tables["steps"] if row[11] & Steps.WARMUP]
    assert [(row[2], row[3], row[5]) for row in flagged] == [(300, 1, 5)]
    assert tracker.steady_steps == 599


def test_looks_come_when_they_are_due() -> None:
    _, clock, tracker, call = _a_fit()
    seen: list[int] = []

    def look(_: Any) -> float:
        seen.append(call.step)
        return clock.now + 50

    tracker.looks.append(look)
    for _ in range(20):
        clock.now += 10
        tracker.step_done(call)
    assert seen == [1, 6, 11, 16]


def test_each_look_has_a_time_of_its_own() -> None:
    """One that comes often must not make another one come as often."""
    _, clock, tracker, call = _a_fit()
    often: list[int] = []
    rarely: list[int] = []

    def look(seen: list[int], after: int) -> Any:
        def looked(_: Any) -> float:
            seen.append(call.step)
            return clock.now + after

        return looked

    tracker.looks += [look(often, 30), look(rarely, 100)]
    for _ in range(20):
        clock.now += 10
        tracker.step_done(call)
    assert often == [1, 4, 7, 10, 13, 16, 19]
    assert rarely == [1, 11]
    tracker.look_now()
    clock.now += 10
    tracker.step_done(call)
    assert (often[-1], rarely[-1]) == (21, 21)


def test_a_hook_that_fails_lets_the_training_go_on() -> None:
    _, clock, tracker, call = _a_fit()
    tracker.looks.append(lambda _: 1 / 0)
    clock.now += 10
    tracker.step_done(call)
    assert not tracker.recorder.live
    tracker.on_training.append(lambda: 1 / 0)
    assert tracker.begin("fit", None, acc.SETUP) is None

"""The bench's own logic, on experiments that take no time at all: a clock that only they move."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fitdoctor.errors import CannotRun
from fitdoctor.lab import bench
from fitdoctor.probes.account import RUN, STEADY
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.recorder import Nowhere, Recorder


class World:
    """A clock, a snapshot that counts how often it was put back, and experiments made up on the spot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.restored = 0
        self.order: list[str] = []
        self.modules: list[Any] = []
        monkeypatch.setattr(bench, "time", self)
        monkeypatch.setattr(bench, "Snapshot", lambda model: self)
        monkeypatch.setattr(bench, "Job", lambda *args, **kwargs: SimpleNamespace(block_seconds=0.25))
        monkeypatch.setattr(bench, "modules", lambda: iter(self.modules))
        self.bytes = 100

    def restore(self) -> None:
        self.restored += 1

    def monotonic(self) -> float:
        return self.now

    def perf_counter_ns(self) -> int:
        return int(self.now * 1e9)

    def process_time_ns(self) -> int:
        return int(self.now * 1.5e9)

    def experiment(self, name: str, worth: float, *, takes: float = 0.5, values: Iterator[float] | None = None) -> None:
        def changed() -> float:
            self.now += takes
            self.order.append(name)
            return next(values) if values is not None else 5.0

        def baseline() -> float:
            self.now += takes
            return 10.0

        def comparisons(job: Any, seen: Any) -> Iterator[bench.Comparison]:
            yield bench.Comparison(name, changed, baseline)

        self.modules.append(SimpleNamespace(NAME=name, worth=lambda seen: worth, comparisons=comparisons))

    def run(self, seconds: float) -> Recorder:
        recorder = Recorder(Nowhere(), 0)
        recorder.account.totals[STEADY], recorder.account.totals[RUN] = 10**9, 9 * 10**8
        call = ActiveCall(1, "fit", None, None, 0)
        call.steady = 100
        bench.run(recorder, call, None, ((), {}), seconds, lambda text: None)
        return recorder


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def trials(recorder: Recorder) -> dict[str, list[float]]:
    return {row[0]: json.loads(row[3]) for row in recorder._rows.get("trials", [])}


def test_it_says_how_many_cores_were_busy(world: World) -> None:
    world.experiment("steady", 1.0)
    recorder = world.run(60)
    assert json.loads(recorder._rows["trials"][0][4])["cores"] == pytest.approx(1.5)


def test_what_could_change_the_answer_most_comes_first(world: World) -> None:
    world.experiment("small", 0.1)
    world.experiment("large", 0.9)
    world.experiment("pointless", 0.0)
    world.run(60)
    assert list(dict.fromkeys(world.order)) == ["large", "small"]


def test_a_ratio_that_is_known_is_not_measured_again(world: World) -> None:
    world.experiment("steady", 1.0)
    world.experiment("noisy", 0.5, values=iter([3.0, 9.0] * 50))
    found = trials(world.run(60))
    assert len(found["steady"]) == bench.FEWEST_PAIRS
    assert len(found["noisy"]) == bench.MOST_PAIRS


@pytest.mark.parametrize("seconds", [3.0, 8.0, 20.0])
def test_the_budget_is_kept(world: World, seconds: float) -> None:
    for place in range(6):
        world.experiment(f"number {place}", 1.0, values=iter([3.0, 9.0] * 50))
    recorder = world.run(seconds)
    assert world.now <= seconds * 1.1
    done, missing = trials(recorder), {what for what, _ in recorder._gaps}
    assert {f"experiment: number {place}" for place in range(6) if f"number {place}" not in done} == missing


def test_after_each_experiment_the_state_is_put_back_also_when_one_raises(world: World) -> None:
    world.experiment("first", 1.0)
    world.experiment("fails", 0.5, values=iter([]))
    world.experiment("last", 0.1)
    recorder = world.run(60)
    assert world.restored == 3
    assert set(trials(recorder)) == {"first", "last"}
    assert [what for what, _ in recorder._gaps] == ["experiment: fails"]


def test_a_state_that_does_not_fit_leaves_all_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: Any) -> None:
        raise CannotRun("a copy takes 9 GB, 1 GB is free", do="more memory")

    monkeypatch.setattr(bench, "Snapshot", refuse)
    world.experiment("any", 1.0)
    recorder = world.run(60)
    assert trials(recorder) == {}
    assert next(iter(recorder._gaps)) == ("experiment: any", "a copy takes 9 GB, 1 GB is free")


def test_an_interrupt_ends_the_lab_and_puts_everything_back(world: World) -> None:
    def interrupted() -> Iterator[float]:
        yield 5.0
        raise KeyboardInterrupt

    world.experiment("done", 1.0)
    world.experiment("cut", 0.5, values=interrupted())
    with pytest.raises(KeyboardInterrupt):
        world.run(60)
    assert world.restored >= 2

"""The bench's own logic, on experiments that take no time at all: a clock that only they move."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fitdoctor.errors import CannotRun
from fitdoctor.lab import bench
from fitdoctor.lab.experiments import batch_size, cached_batch
from fitdoctor.lab.job import Variant
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
        monkeypatch.setattr(bench, "Job", lambda *args, **kwargs: SimpleNamespace(block_seconds=0.25, results={}))
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

    def experiment(
        self,
        name: str,
        worth: float,
        *,
        takes: float = 0.5,
        values: Iterator[float] | None = None,
        trains: bool = True,
        pointless: bool = False,
    ) -> None:
        def changed() -> float:
            self.now += takes
            self.order.append(name)
            return next(values) if values is not None else 5.0

        def baseline() -> float:
            self.now += takes
            return 10.0

        def comparisons(job: Any, seen: Any) -> Iterator[bench.Comparison]:
            yield bench.Comparison(name, changed, baseline, pointless=lambda: pointless)

        told = {} if trains else {"TRAINS": False}
        self.modules.append(
            SimpleNamespace(
                NAME=name, worth=lambda seen: worth, comparisons=comparisons, __name__=f"lab.{name}", **told
            )
        )

    def run(self, seconds: float, model: Any = None, sooner: tuple[str, ...] = ()) -> Recorder:
        recorder = Recorder(Nowhere(), 0)
        recorder.account.totals[STEADY], recorder.account.totals[RUN] = 10**9, 9 * 10**8
        call = ActiveCall(1, "fit", None, None, 0)
        call.steady = 100
        bench.run(recorder, call, model, ((), {}), seconds, lambda text: None, sooner)
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


def test_what_has_little_to_tell_may_come_early_and_have_little_time(world: World) -> None:
    world.experiment("large", 9.0)
    world.experiment("larger", 10.0)
    world.experiment("early", 0.1, takes=1.0, values=iter([3.0, 9.0] * 50))
    world.modules[-1].RANK = 9.5
    found = trials(world.run(60))
    assert list(dict.fromkeys(world.order)) == ["larger", "early", "large"]
    assert len(found["early"]) == bench.FEWEST_PAIRS


def test_what_was_asked_for_comes_sooner_and_has_half_of_the_time(world: World) -> None:
    world.experiment("large", 100.0, takes=1.0)
    world.experiment("asked", 0.01, values=iter([3.0, 9.0] * 50), takes=1.0)
    recorder = world.run(40, sooner=("asked",))
    assert list(dict.fromkeys(world.order)) == ["asked", "large"]
    assert 5 <= len(trials(recorder)["asked"]) <= 12


def test_a_ratio_that_is_known_is_not_measured_again(world: World) -> None:
    world.experiment("steady", 1.0)
    world.experiment("noisy", 0.5, values=iter([3.0, 9.0] * 50))
    found = trials(world.run(60))
    assert len(found["steady"]) == bench.FEWEST_PAIRS
    assert len(found["noisy"]) == bench.MOST_PAIRS


@pytest.mark.parametrize(("disturbed", "pairs"), [(12.0, bench.MOST_UNDECIDED), (7.0, bench.FEWEST_PAIRS)])
def test_pairs_that_contradict_a_large_gain_ask_for_more_of_them(world: World, disturbed: float, pairs: int) -> None:
    """Its share of the time is three pairs; the baseline takes 10."""
    world.experiment("telling", 1.1, values=iter([6.0, disturbed, *[6.1, 5.9] * 10]))
    for place in range(5):
        world.experiment(f"number {place}", 1.0)
    recorder = world.run(20)
    assert len(trials(recorder)["telling"]) == pairs
    assert world.now <= 22


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


def test_a_state_that_does_not_fit_leaves_what_trains_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: Any) -> World:
        if model is not None:
            raise CannotRun("a copy takes 9 GB, 1 GB is free", do="more memory")
        return world

    monkeypatch.setattr(bench, "Snapshot", refuse)
    world.experiment("trains", 1.0)
    world.experiment("reads", 0.5, trains=False)
    recorder = world.run(60, model="large")
    assert set(trials(recorder)) == {"reads"}
    assert list(recorder._gaps) == [("experiment: trains", "a copy takes 9 GB, 1 GB is free")]
    assert world.restored == 1, "the random generators are put back"


def test_a_question_that_was_answered_meanwhile_is_not_asked(world: World) -> None:
    world.experiment("answered", 1.0, pointless=True)
    world.experiment("open", 0.5)
    recorder = world.run(60)
    assert set(trials(recorder)) == {"open"}
    assert list(recorder._gaps) == []


@pytest.mark.parametrize(
    ("per_sample", "tried"),
    [([10, 6, 5.9, 5.9, 5.9, 5.9], [2, 4]), ([10, 9.9], [2]), ([10, 7, 5, 3.6, 2.6, 1.9], [2, 4, 8, 16, 32])],
    ids=["flattens", "flat from the start", "rises to the end"],
)
def test_larger_batches_are_tried_until_throughput_flattens(per_sample: list[float], tried: list[int]) -> None:
    ran: list[int] = []

    def block(variant: Variant) -> float:
        factor = (variant.rows or 8) // 8
        ran.append(factor)
        return per_sample[factor.bit_length() - 1] * factor

    job: Any = SimpleNamespace(batch_rows=8, block=block)
    for comparison in batch_size.comparisons(job, None):  # type: ignore[arg-type]
        assert comparison.pointless is not None
        assert comparison.baseline is not None
        if not comparison.pointless():
            comparison.changed()
            comparison.baseline()
    assert [factor for factor in ran if factor > 1] == tried


def test_larger_batches_are_not_tried_where_the_next_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = iter([100, 300])
    monkeypatch.setattr(batch_size, "_peak", lambda: next(peaks))
    monkeypatch.setattr(batch_size, "free_memory", lambda: 350)
    curve = batch_size.Curve(SimpleNamespace(batch_rows=8, block=lambda variant: 1.0))  # type: ignore[arg-type]
    assert not curve.ended(2)
    curve.larger(2)
    assert curve.ended(4), "it would take 400 more"


def test_an_interrupt_ends_the_lab_and_puts_everything_back(world: World) -> None:
    def interrupted() -> Iterator[float]:
        yield 5.0
        raise KeyboardInterrupt

    world.experiment("done", 1.0)
    world.experiment("cut", 0.5, values=interrupted())
    with pytest.raises(KeyboardInterrupt):
        world.run(60)
    assert world.restored >= 2


def test_what_a_comparison_holds_ends_with_it_also_when_it_fails(world: World) -> None:
    ended: list[str] = []

    def fails() -> float:
        raise CannotRun("the data is used up")

    def comparisons(job: Any, seen: Any) -> Iterator[bench.Comparison]:
        for name, changed in (("fine", lambda: 5.0), ("broken", fails)):
            yield bench.Comparison(name, changed, lambda: 10.0, late=lambda name=name: ended.append(name) or {})

    world.modules.append(SimpleNamespace(NAME="holds", worth=lambda seen: 1.0, comparisons=comparisons))
    recorder = world.run(60)
    assert ended == ["fine", "broken"]
    assert [what for what, _ in recorder._gaps] == ["experiment: holds"]


def test_offers_are_rehearsed_right_after_the_last_of_them(world: World) -> None:
    for name, worth in (("first", 9.0), ("offering", 1.0), ("rehearsing", 8.0), ("last", 0.5)):
        world.experiment(name, worth, takes=0.1)
    world.modules[1].OFFERS = True
    world.modules[2].AFTER_OFFERS = True
    world.run(60)
    assert list(dict.fromkeys(world.order)) == ["first", "offering", "rehearsing", "last"]


def test_nothing_is_rehearsed_where_nothing_is_offered(world: World) -> None:
    world.experiment("plain", 1.0)
    world.experiment("rehearsing", 8.0)
    world.modules[1].AFTER_OFFERS = True
    world.run(60)
    assert set(world.order) == {"plain"}


def test_what_is_learned_first_weighs_the_others_anew(world: World) -> None:
    world.experiment("compute", 5.0)
    world.experiment("input", 1.0)
    world.experiment("teaches", 0.5)
    compute, asks, teaches = world.modules
    compute.worth = lambda seen: 5.0 * seen.shares["run"]
    asks.worth = lambda seen: 2.0 * seen.shares["fetch"]
    teaches.FIRST = True
    teaches.learned = lambda job, seen: replace(seen, shares={**seen.shares, "fetch": 0.9, "run": 0.0})
    recorder = world.run(60)
    assert list(dict.fromkeys(world.order)) == ["teaches", "input"], "the step waits: what computes is of no interest"
    assert not recorder._gaps


def test_what_one_batch_takes_tells_how_long_a_step_waits() -> None:
    seen = bench.Seen(10e6, {"backend": "tensorflow"}, {"fetch": 0.0, "run": 0.9, "sync": 0.1, "between epochs": 0.0})
    job: Any = SimpleNamespace(results={"cached batch": 2e6})
    assert cached_batch.learned(job, seen).shares["fetch"] == pytest.approx(0.8)
    assert cached_batch.learned(job, seen).shares["run"] == pytest.approx(0.1)
    job.results["cached batch"] = 12e6
    assert cached_batch.learned(job, seen).shares == seen.shares, "a batch that took longer alone tells of no wait"
    job.results.clear()
    assert cached_batch.learned(job, seen) is seen


def test_what_could_change_most_is_not_given_up_for_what_could_change_less(world: World) -> None:
    world.experiment("slow and telling", 2.0, takes=1.0)
    for place in range(8):
        world.experiment(f"quick {place}", 1.9, takes=0.1)
    first = world.modules[0]
    own = first.comparisons
    first.comparisons = lambda job, seen: (replace(each, block_seconds=1.0) for each in own(job, seen))
    recorder = world.run(10)
    assert "slow and telling" in trials(recorder), "its share of the time is a second, the least it needs four"
    assert world.now <= 11

"""The search, with runs that are made up: what is tried, stopped, kept and resumed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from fitdoctor.errors import UsageError
from fitdoctor.tune import knobs
from fitdoctor.tune.attempt import Job, Look, Result
from fitdoctor.tune.knobs import Space
from fitdoctor.tune.search import Search
from fitdoctor.tune.settings import Settings
from fitdoctor.tune.trial import Trial, winner
from tests.tune.world import World, seen

pytest.importorskip("optuna")
OPTIONS: object = object()


def step_s(settings: Settings) -> float:
    """Steps of 10 ms that are shorter with some settings, and more so with both."""
    seconds = 0.010 / {1: 1, 8: 1.5, 32: 1.6}[settings.steps_per_execution or 1]
    return seconds / (1.3 if settings.jit_compile else 1.0)


def runner(world: World) -> Callable[[Settings, str, Look], Result]:
    return lambda settings, name, look: world.run(Job(name, OPTIONS, settings), look)  # type: ignore[arg-type]


def small(**about: object) -> Space:
    return knobs.space(seen(**about), ("tensorflow",))


def large() -> Space:
    return knobs.space(seen(), ("tensorflow", "jax", "torch"), unsafe=True)


def begun(tmp_path: Path, space: Space | None = None) -> Search:
    return Search.begin(tmp_path / "a.search", space or small(), seen())


def test_a_small_space_is_tried_as_a_whole_and_each_once(tmp_path: Path) -> None:
    world, search = World(step_s), begun(tmp_path)
    search.go(runner(world), trials=16)
    assert len(world.made) == len(set(world.made)) == 5, "six combinations, one of them the script's own"
    trials = list(search.trials())
    assert (trials[0].state, trials[0].settings) == ("own", Settings())
    best = winner(trials)
    assert best is not None
    assert best.settings == Settings(steps_per_execution=32, jit_compile=True)
    assert best.training_s == pytest.approx(10.0 / 1.6 / 1.3)


def test_a_large_space_is_searched_without_trying_anything_twice(tmp_path: Path) -> None:
    def of(settings: Settings) -> float:
        fast = {"tensorflow": 1.0, "jax": 2.0, "torch": 0.3}[settings.backend or "tensorflow"]
        return 0.01 / fast * (settings.batch_size or 32) / 32

    world, search = World(of), begun(tmp_path, large())
    search.go(runner(world), trials=12)
    assert len(world.made) == len(set(world.made)) == 12
    for settings in world.made:
        assert settings.backend != "torch" or settings.steps_per_execution is None
        assert settings.backend in (None, "tensorflow") or settings.jit_compile is None
    best = winner(list(search.trials()))
    assert best is not None
    assert best.settings.backend == "jax"


def test_the_search_is_the_same_every_time(tmp_path: Path) -> None:
    worlds = [World(lambda settings: 0.01), World(lambda settings: 0.01)]
    for number, world in enumerate(worlds):
        Search.begin(tmp_path / f"{number}.search", large(), seen()).go(runner(world), trials=6)
    assert worlds[0].made == worlds[1].made


def test_a_hopeless_trial_is_stopped_early(tmp_path: Path) -> None:
    world = World(lambda settings: 0.03 if settings.jit_compile else step_s(settings))
    search = begun(tmp_path)
    search.go(runner(world), trials=16)
    trials = list(search.trials())
    stopped = [each for each in trials if each.state == "stopped early"]
    assert stopped
    assert all(each.settings.jit_compile for each in stopped)
    assert all(world.looks[str(each.settings)] < 4 for each in stopped)
    assert "times the script's own speed" in stopped[0].why
    assert sum(each.state == "measured" for each in trials) + len(stopped) == 5


def test_a_trial_that_fails_is_told_and_the_search_goes_on(tmp_path: Path) -> None:
    world, search = World(step_s), begun(tmp_path)
    world.failing = lambda settings: "ResourceExhaustedError: OOM" if settings.jit_compile else ""
    search.go(runner(world), trials=16)
    failed = [each for each in search.trials() if each.state == "failed"]
    assert len(failed) == 3
    assert {each.why for each in failed} == {"ResourceExhaustedError: OOM"}
    best = winner(list(search.trials()))
    assert best is not None
    assert best.settings == Settings(steps_per_execution=32)


def test_the_time_ends_it(tmp_path: Path) -> None:
    world, search = World(step_s), begun(tmp_path)
    search.go(runner(world), trials=16, seconds=25.0, clock=world.clock)
    assert len(world.made) == 3


def test_a_number_of_trials_ends_it(tmp_path: Path) -> None:
    world, search = World(step_s), begun(tmp_path)
    search.go(runner(world), trials=2)
    assert len(world.made) == 2


def test_several_at_a_time(tmp_path: Path) -> None:
    world, search = World(step_s, slots=3), begun(tmp_path)
    search.go(runner(world), trials=16, slots=3)
    assert {each.settings for each in search.trials()} >= {Settings(steps_per_execution=32, jit_compile=True)}
    assert len({each.settings for each in search.trials()}) == 6


def test_what_the_last_of_several_leaves_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, search = World(step_s, slots=3), begun(tmp_path)
    optimize, begins = search.study.optimize, list[int]()

    def too_short(*args: object, **more: object) -> None:
        begins.append(len(world.made))
        optimize(*args, **more, **({"n_trials": 3} if len(begins) == 1 else {}))

    monkeypatch.setattr(search.study, "optimize", too_short)
    search.go(runner(world), trials=16, slots=3)
    assert len({each.settings for each in search.trials()}) == 6
    assert len(begins) >= 2


def test_interrupted_and_resumed(tmp_path: Path) -> None:
    world, search = World(step_s), begun(tmp_path)
    world.interrupt_at = 2
    with pytest.raises(KeyboardInterrupt):
        search.go(runner(world), trials=16)
    assert [each.state for each in search.trials()][::3] == ["own", "interrupted"]

    again = Search.resume(tmp_path / "a.search")
    assert again.own == dataclasses.replace(seen(), learning=())
    other = World(step_s)
    again.go(runner(other), trials=16)
    assert other.made[0] == world.made[2], "what was cut short is made again"
    assert len(other.made) == 3, "what was measured is not"
    assert len(list(again.trials())) == 6
    assert "interrupted" not in {each.state for each in again.trials()}


def test_a_driver_that_was_killed(tmp_path: Path) -> None:
    search = begun(tmp_path)
    left = search.study.ask()
    search._choose(left)
    again = Search.resume(tmp_path / "a.search")
    world = World(step_s)
    again.go(runner(world), trials=16)
    assert len(set(world.made)) == 5
    assert len(list(again.trials())) == 6
    assert "interrupted" not in {each.state for each in again.trials()}


def test_a_file_that_is_no_search(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no search"):
        Search.resume(tmp_path / "none.search")


def timed(number: int, seconds: float, settings: Settings) -> Trial:
    return Trial(number, settings, "own" if number == 0 else "measured", training_s=seconds)


def test_of_trials_that_are_as_good_the_one_that_changes_least_wins() -> None:
    both = timed(1, 5.00, Settings(steps_per_execution=32, jit_compile=True))
    one = timed(2, 5.05, Settings(steps_per_execution=32))
    own = timed(0, 10.0, Settings())
    assert winner([own, both, one]) is one
    assert winner([own, both, timed(2, 5.2, Settings(steps_per_execution=32))]) is both


def test_nothing_wins_where_nothing_is_faster() -> None:
    own = timed(0, 10.0, Settings())
    assert winner([own]) is None
    assert winner([own, timed(1, 9.95, Settings(jit_compile=True))]) is None

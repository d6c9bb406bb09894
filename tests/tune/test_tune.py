"""The whole of it with runs that are made up: searched, proved, resumed, told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fitdoctor.capture.launch import Options
from fitdoctor.errors import UsageError
from fitdoctor.report import tuned
from fitdoctor.tune import places
from fitdoctor.tune.settings import Settings
from fitdoctor.tune.tune import OTHER_BATCHES, NoTraining, Tuned, Wanted, tune
from tests.tune.test_search import step_s
from tests.tune.world import World

pytest.importorskip("optuna")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FITDOCTOR_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("fitdoctor.backends.installed", lambda: ["tensorflow"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('as it is')\n")
    return tmp_path


def found(world: World, trials: int = 16, budget: float = 1e6, **more: Any) -> Tuned:
    wanted = Wanted(Options(target="train.py"), trials=trials, budget=budget, **more)
    return tune(wanted, world, clock=world.clock)


def text(result: Tuned) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    tuned.render(result, console)
    return console.export_text()


def test_the_winner_is_proved_in_turns_with_the_script_as_it_is() -> None:
    world = World(step_s, noise=0.01)
    result = found(world)
    best = Settings(steps_per_execution=32, jit_compile=True)
    assert result.winner is not None
    assert result.winner.settings == best
    assert result.proof is not None
    assert result.proof.verdict == "PROVED"
    assert result.proof.speedup.low < 1.6 * 1.3 < result.proof.speedup.high
    proofs = [job.settings for job, together in world.jobs if together]
    assert proofs[:4] == [Settings(), best, Settings(), best]
    assert not [job for job, together in world.jobs[:6] if together]
    told = text(result)
    assert "PROVED" in told
    assert "model.compile(..., steps_per_execution=32)" in told
    assert "samples/s" in told


def test_what_was_told_as_data() -> None:
    result = found(World(step_s, noise=0.01))
    data = json.loads(tuned.dumps(result))
    assert data["schema"] == "fitdoctor.tune/1"
    assert data["trials"][0]["state"] == "own"
    assert data["trials"][data["winner"]]["settings"] == {"steps_per_execution": 32, "jit_compile": True}
    assert data["proof"]["verdict"] == "PROVED"
    assert {each["name"] for each in data["not_searched"]} >= {"workers", "batch_size"}
    assert len(data["write"]) == 2


def test_larger_batches_are_compared_by_samples() -> None:
    """A step of eight times as many samples takes twice as long: four times as fast."""

    def of(settings: Settings) -> float:
        return 0.01 * {32: 1.0, 64: 1.1, 128: 1.4, 256: 2.0}[settings.batch_size or 32]

    result = found(World(of, noise=0.01), unsafe=True, only=frozenset({"batch_size"}))
    assert result.winner is not None
    assert result.winner.settings == Settings(batch_size=256)
    assert result.proof is not None
    assert result.proof.speedup.low < 4 < result.proof.speedup.high
    assert (result.proof.verdict, result.proof.learning) == ("PROVED", "not compared")
    assert OTHER_BATCHES in result.proof.because
    assert "8 times the learning rate" in text(result)


def test_what_learns_something_else_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    world = World(step_s, noise=0.01)
    plain = world.run

    def run(job: Any, look: Any, **more: Any) -> Any:
        result = plain(job, look, **more)
        if result.seen is None or not job.settings.count:
            return result
        return dataclasses.replace(result, seen=dataclasses.replace(result.seen, learning=((0, 320.0, 0.9),)))

    monkeypatch.setattr(world, "run", run)
    result = found(world)
    assert result.proof is not None
    assert (result.proof.verdict, result.proof.learning) == ("REFUTED", "different")
    assert not result.proved
    assert tuned.data(result)["write"] == []


def test_nothing_is_proved_where_nothing_is_faster() -> None:
    world = World(lambda settings: 0.01 if not settings.count else 0.02)
    result = found(world)
    assert result.winner is None
    assert result.proof is None
    assert not [job for job, together in world.jobs if together]
    assert "none of the 5" in text(result)


def test_nothing_to_turn() -> None:
    result = found(World(lambda settings: 0.01, kind="train_on_batch"))
    assert result.space.knobs == ()
    assert "nothing can be turned" in text(result)


def test_a_script_that_does_not_train() -> None:
    world = World(step_s)
    world.failing = lambda settings: "No training was seen."
    with pytest.raises(NoTraining, match="No training was seen"):
        found(world)


def test_half_of_the_time_is_left_for_the_proof() -> None:
    world = World(step_s, noise=0.3)
    result = found(world, budget=100.0)
    assert len(result.trials) <= 6
    assert result.proof is None or len(result.proof.schedule) <= 8


def test_interrupted_in_the_search_and_resumed() -> None:
    world = World(step_s, noise=0.01)
    world.interrupt_at = 3
    result = found(world)
    assert result.interrupted
    assert result.proof is None
    assert "not proved" in text(result) or "so far" in text(result)
    assert [each.state for each in result.trials][::3] == ["own", "interrupted"]

    other = World(step_s, noise=0.01)
    again = found(other, resume=True)
    assert again.kept == result.kept
    assert again.proved
    assert len(again.trials) == 6
    assert len([job for job, together in other.jobs if not together]) == 3


def test_interrupted_in_the_proof() -> None:
    world = World(step_s, noise=0.01)
    world.interrupt_at = 8
    result = found(world)
    assert result.interrupted
    assert result.winner is not None
    assert result.proof is None
    assert "it is not proved" in text(result)


def test_a_proof_that_cannot_be_run() -> None:
    world = World(step_s)
    world.failing = lambda settings: "MemoryError" if len(world.made) > 8 else ""
    result = found(world)
    assert (result.proof, result.proved) == (None, False)
    assert "a run of the proof failed (as the script has it): MemoryError" in text(result)
    assert tuned.data(result)["unproved"].endswith("MemoryError")


def test_a_search_goes_on_only_with_the_same_files(home: Path) -> None:
    world = World(step_s, files=[str(home / "train.py")])
    found(world)
    found(World(step_s), resume=True)
    (home / "train.py").write_text("print('changed')\n")
    with pytest.raises(UsageError, match=r"train\.py has changed since"):
        found(World(step_s), resume=True)


def test_there_is_nothing_to_resume() -> None:
    found(World(step_s))
    with pytest.raises(UsageError, match="no search of this very command"):
        found(World(step_s), resume=True, unsafe=True)


def test_searches_lie_beside_the_captures(home: Path) -> None:
    result = found(World(step_s))
    assert result.kept.parent == home / "state" / "searches"
    assert places.newest({"another": 1}) is None


def test_a_proof_of_slow_steps_watches_fewer_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    world = World(step_s, noise=0.01)
    plain = world.run

    def run(job: Any, look: Any, **more: Any) -> Any:
        result = plain(job, look, **more)
        if result.seen is None:
            return result
        came = 100 + len(world.jobs)
        stopped = min(job.options.steps, came)
        about = {**result.seen.about, "cut": stopped if stopped < job.options.steps else 0}
        seen = dataclasses.replace(result.seen, learning=((0, 3.0 + stopped, 0.5),), about=about)
        return dataclasses.replace(result, seen=seen)

    monkeypatch.setattr(world, "run", run)
    result = found(world)
    assert result.proof is not None
    assert (result.proof.verdict, result.proof.learning) == ("PROVED", "identical")

"""`fitdoctor fix --prove`: what is shown is proved, what is kept is written; how long runs take is made up."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fitdoctor import diagnosis
from fitdoctor.cli.main import main
from fitdoctor.model import Capture, Report
from fitdoctor.proof import runs
from tests.fixes.conftest import FIXED_TRAIN, MODEL, TRAIN, Project

Seconds = Callable[[str], float]
"""How long a training takes, by the text of its files."""


@pytest.fixture
def machine(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Let runs of the project take as long as is said, and learn what is said; give the files that were run."""
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("COLUMNS", "200")
    ran: list[str] = []

    def runs_take(seconds: Seconds, loss: Seconds = lambda text: 0.5) -> list[str]:
        def once(options: runs.Options, **_: object) -> runs.Run:
            overlay = options.overlay or {}
            files = [overlay.get(str(path), path.read_bytes()) for path in project.files.values()]
            text = b"".join(files).decode()
            ran.append(text)
            spread = 1 + 0.001 * (len(ran) % 3)
            return runs.Run(seconds(text) * spread, seconds(text) / 100, {(0, math.inf): loss(text)})

        monkeypatch.setattr(runs, "once", once)
        return ran

    return runs_take


def has(text: str, *, checkpoint: float = 1.0, xla: float = 1.0, chunks: float = 1.0) -> float:
    """Return ten seconds, times a factor for each fix that is in the text."""
    factors = {"save_freq=200": checkpoint, "jit_compile=True": xla, "steps_per_execution=8": chunks}
    return 10 * math.prod(factor for words, factor in factors.items() if words in text)


def test_the_verdict_is_shown_and_nothing_is_written(
    project: Project, machine: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    ran = machine(lambda text: has(text, checkpoint=0.5))
    capture = str(project.capture())
    assert main(["fix", "--prove", "--quiet", "--only", "frequent-checkpoint", capture]) == 0
    told = capsys.readouterr()
    assert "+save = keras.callbacks.ModelCheckpoint" in told.out
    header = next(line for line in told.out.splitlines() if line.startswith("fix "))
    assert header.split() == ["fix", "predicted", "measured", "verdict", "learning"]
    row = next(line for line in told.out.splitlines() if line.startswith("frequent-checkpoint "))
    assert "PROVED" in row
    assert row.count("x (") == 2, "predicted beside measured"
    assert "Kept  frequent-checkpoint" in told.out
    assert told.err.strip() == "fitdoctor: nothing was written: --apply writes what is proved"
    assert project.bytes() == {"train": TRAIN, "model": MODEL}
    assert len(set(ran)) == 2


def test_apply_writes_what_is_proved(
    project: Project, machine: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    machine(lambda text: has(text, checkpoint=0.5))
    words = ["fix", "--apply", "--prove", "--quiet", "--only", "frequent-checkpoint", str(project.capture())]
    assert main(words) == 0
    assert project.bytes() == {"train": FIXED_TRAIN, "model": MODEL}
    assert "`fitdoctor fix --undo` takes it back" in capsys.readouterr().err
    assert main(["fix", "--undo"]) == 0
    assert project.bytes() == {"train": TRAIN, "model": MODEL}


def test_what_does_not_help_is_not_written(
    project: Project, machine: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Together they are slower: each is tried alone, and the one that helps is kept."""
    machine(lambda text: has(text, checkpoint=0.6, xla=3.0, chunks=1.5))
    assert main(["fix", "--apply", "--prove", "--quiet", str(project.capture())]) == 0
    assert project.bytes() == {"train": FIXED_TRAIN, "model": MODEL}
    told = capsys.readouterr().out
    assert "Kept  frequent-checkpoint:" in told
    assert "REFUTED" in told


@pytest.mark.parametrize("words", [["--apply"], []])
def test_where_nothing_is_proved_nothing_is_written(
    project: Project, machine: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    machine(lambda text: has(text, xla=1.3, chunks=1.3, checkpoint=1.3))
    assert main(["fix", *words, "--prove", "--quiet", str(project.capture())]) == 1
    assert project.bytes() == {"train": TRAIN, "model": MODEL}
    told = capsys.readouterr()
    assert "Nothing was kept" in told.out
    assert "nothing was written: nothing was proved" in told.err


def test_what_learns_something_else_is_not_written(
    project: Project, machine: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    machine(lambda text: has(text, checkpoint=0.2), lambda text: 0.5 if "save_freq=200" not in text else 5.0)
    words = ["fix", "--apply", "--prove", "--quiet", "--only", "frequent-checkpoint", str(project.capture())]
    assert main(words) == 1
    assert project.bytes() == {"train": TRAIN, "model": MODEL}
    assert "REFUTED" in capsys.readouterr().out


def test_nothing_is_run_where_nothing_can_be_written(
    project: Project, machine: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    ran = machine(has)
    capture = str(project.capture())
    assert main(["fix", "--prove", "--only", "float64-data", capture]) == 0
    assert "nothing can be without you" in capsys.readouterr().err
    project.write(train=TRAIN + b"# mine\n")
    assert main(["fix", "--prove", "--apply", "--only", "frequent-checkpoint", capture]) == 2
    assert "has changed since it ran" in capsys.readouterr().err
    assert ran == []


def test_a_capture_of_another_folder_is_told(
    project: Project, machine: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    machine(has)
    capture = str(project.capture())
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--prove", capture]) == 2
    assert f"cd {project.folder}" in capsys.readouterr().err


def test_steps_and_time_of_the_proof_may_be_given_with_a_capture(
    project: Project, machine: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    machine(lambda text: has(text, checkpoint=0.5))
    capture = str(project.capture())
    words = ["--steps", "50", "--budget", "30", "--quiet", "--only", "frequent-checkpoint", capture]
    assert main(["fix", *words]) == 2
    assert "--steps is about running a script" in capsys.readouterr().err
    assert main(["fix", "--prove", *words]) == 0


def test_undo_proves_nothing(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", "--undo", "--prove"]) == 2
    assert "--prove means nothing beside it" in capsys.readouterr().err


def test_a_file_that_is_edited_while_it_is_proved_is_not_written_over(
    project: Project, machine: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    edited = TRAIN + b"# mine\n"

    def seconds(text: str) -> float:
        project.write(train=edited)
        return has(text, checkpoint=0.5)

    machine(seconds)
    words = ["fix", "--apply", "--prove", "--quiet", "--only", "frequent-checkpoint", str(project.capture())]
    assert main(words) == 2
    told = capsys.readouterr()
    assert "has changed since it ran" in told.err
    assert "takes it back" not in told.err, "nothing was written that could be taken back"
    assert project.bytes()["train"] == edited


def test_a_fix_that_stood_back_for_another_does_not_come_in_where_that_is_dropped(
    project: Project, machine: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Else the proof of a third fix would be of two, and be spoilt by one that nobody asked about."""
    plain = diagnosis.diagnose

    def diagnose(capture: Capture) -> Report:
        report = plain(capture)
        found = [
            replace(each, fix=replace(each.fix, apart=("frequent-checkpoint",)))
            if each.rule == "missing-xla" and each.fix is not None
            else each
            for each in report.findings
        ]
        return replace(report, findings=tuple(found))

    monkeypatch.setattr(diagnosis, "diagnose", diagnose)
    ran = machine(lambda text: has(text, checkpoint=3.0, xla=2.0, chunks=0.7))
    capture = str(project.capture())
    assert main(["fix", "--apply", "--prove", "--quiet", capture]) == 0
    assert "jit_compile" not in "".join(ran)
    assert project.bytes() == {"train": TRAIN, "model": MODEL.replace(b'"mse"', b'"mse", steps_per_execution=8')}
    assert "Kept  dispatch-bound:" in capsys.readouterr().out


def test_a_fix_with_which_the_training_fails_is_dropped(
    project: Project, machine: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    def seconds(text: str) -> float:
        if "jit_compile=True" in text:
            raise runs.CannotTime("train.py could not be run: The script ended with XlaError.", do="", trained=False)
        return has(text, checkpoint=0.5, chunks=0.9)

    machine(seconds)
    capture = str(project.capture())
    assert main(["fix", "--apply", "--prove", "--quiet", capture]) == 0
    told = capsys.readouterr().out
    row = next(line for line in told.splitlines() if line.startswith("missing-xla "))
    assert "REFUTED" in row
    assert row.count("x (") == 1, "predicted; nothing was measured"
    assert "Kept  frequent-checkpoint, dispatch-bound:" in told
    now = project.bytes()
    assert now["train"] == FIXED_TRAIN
    assert b"jit_compile" not in now["model"]


def test_a_single_fix_with_which_the_training_fails_is_refuted(
    project: Project, machine: Callable[..., list[str]]
) -> None:
    from fitdoctor import pipeline
    from fitdoctor.fixes.plan import Wanted
    from fitdoctor.report import proof

    def seconds(text: str) -> float:
        if "save_freq=200" in text:
            raise runs.CannotTime("train.py could not be run: exit code 1", do="", trained=False)
        return has(text)

    machine(seconds)
    wanted = Wanted(only=frozenset({"frequent-checkpoint"}))
    _, outcome = pipeline.prove_fixes(project.capture(), wanted)
    assert outcome is not None
    assert outcome.kept is None
    found = outcome.tried[0].proof
    because = "with the change it cannot be timed: train.py could not be run: exit code 1"
    assert (found.verdict, found.because) == ("REFUTED", because)
    assert proof.text(found) == f"REFUTED: {because}."
    told = json.loads(proof.dumps(found), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert told["after_s"] == {"low": None, "mid": None, "high": None}


def test_a_script_that_fails_as_it_is_is_an_error(
    project: Project, machine: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    def seconds(text: str) -> float:
        raise runs.CannotTime("train.py could not be run: exit code 1", do="try it", trained=False)

    machine(seconds)
    assert main(["fix", "--apply", "--prove", "--quiet", str(project.capture())]) == 2
    assert "train.py could not be run: exit code 1" in capsys.readouterr().err
    assert project.bytes() == {"train": TRAIN, "model": MODEL}


def test_what_there_was_no_time_for_is_told(
    project: Project, machine: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from fitdoctor.proof import kept

    now = [0.0]
    plain = kept.decide
    monkeypatch.setattr(kept, "decide", lambda *words, **more: plain(*words, **more, clock=lambda: now[0]))

    def seconds(text: str) -> float:
        now[0] += 60.0
        return has(text, checkpoint=0.6, xla=3.0, chunks=1.5)

    machine(seconds)
    assert main(["fix", "--apply", "--prove", "--quiet", str(project.capture())]) == 0
    told = capsys.readouterr().out
    assert "2 fixes were not tried alone, since the time was up: a larger --budget does." in told
    assert "Kept  frequent-checkpoint:" in told

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fitdoctor import pipeline
from fitdoctor.cli import run as command
from fitdoctor.cli.main import build_parser
from fitdoctor.errors import CannotWrite, UsageError
from tests.captures.build import Run
from tests.cli.conftest import Cli
from tests.report import samples
from tests.report.contract import assert_contract


@dataclass(frozen=True)
class Options:
    target: str
    module: bool
    args: tuple[str, ...]
    whole: bool
    steps: int | None
    capture: Path | None
    redact: bool
    quiet: bool
    budget: float = 60.0
    lab: bool = True
    sooner: tuple[str, ...] = ()


def ended(**changes: Any) -> SimpleNamespace:
    values = {"capture": Path("x"), "returncode": 0, "reason": "capped", "training_seen": True, "message": ""}
    values |= {"interrupted": False}
    return SimpleNamespace(**{**values, **changes})


class Launcher:
    """Stands in for `fitdoctor.capture.launch`: remembers what it was asked and answers what it was told."""

    Options = Options

    def __init__(self, answer: SimpleNamespace, child: list[str] | None = None) -> None:
        self.answer = answer
        self.child = child
        self.options: Options | None = None

    def launch(self, options: Options, progress: Callable[[str], None]) -> SimpleNamespace:
        self.options = options
        progress("10 of 100 steps")
        if self.child:
            subprocess.run(self.child, check=True)
        return self.answer


def parsed(*words: str) -> argparse.Namespace:
    ours, theirs = command.split(words)
    parser, _ = build_parser()
    args = parser.parse_args(["run", *ours])
    args.rest = theirs
    return args


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    return "train.py"


@pytest.fixture(autouse=True)
def _diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    """The diagnosis has tests of its own."""
    monkeypatch.setattr("fitdoctor.pipeline.open_capture", lambda path: (samples.SLOW, samples.source_of))


@pytest.mark.parametrize(
    ("words", "ours", "theirs"),
    [
        ("train.py", "", "train.py"),
        ("train.py --help", "", "train.py --help"),
        ("--steps 5 train.py --steps 6 -x --json y", "--steps 5", "train.py --steps 6 -x --json y"),
        ("--steps=5 --whole train.py -- --", "--steps=5 --whole", "train.py -- --"),
        ("--json - train.py", "--json -", "train.py"),
        ("-m pkg.train --lr 1", "", "-m pkg.train --lr 1"),
        ("-mpkg.train -m", "", "-mpkg.train -m"),
        ("--quiet -- train.py --", "--quiet", "train.py --"),
        ("--help", "--help", ""),
        ("--nonsense train.py", "--nonsense", "train.py"),
        ("--steps", "--steps", ""),
        ("", "", ""),
    ],
)
def test_ours_and_theirs(words: str, ours: str, theirs: str) -> None:
    assert command.split(words.split()) == (ours.split(), theirs.split())


def test_everything_after_the_script_reaches_it_untouched(script: str) -> None:
    launcher = Launcher(ended())
    theirs = ["--help", "--", "-x", "--json", "a b", "", "--whole", "-m", "@file"]
    assert command.run(parsed("--steps", "7", "--budget", "2.5", "--redact", script, *theirs), launcher) == 0
    assert launcher.options == Options("train.py", False, tuple(theirs), False, 7, None, True, False, 2.5)


@pytest.mark.parametrize("interrupted", [False, True])
def test_who_stops_a_run_does_not_want_others(script: str, monkeypatch: pytest.MonkeyPatch, interrupted: bool) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(pipeline, "try_backends", lambda *args: tried.append(args))
    command.run(parsed("--backends", script), Launcher(ended(interrupted=interrupted)))
    assert bool(tried) is not interrupted


def test_a_module(script: str) -> None:
    for words in (["-m", "pkg.train", "-m", "x"], ["-mpkg.train", "-m", "x"]):
        launcher = Launcher(ended())
        command.run(parsed("--whole", "--capture", "c.fitdoctor", *words), launcher)
        assert launcher.options == Options(
            "pkg.train",
            True,
            ("-m", "x"),
            True,
            None,
            Path("c.fitdoctor"),
            False,
            False,
        )


@pytest.mark.parametrize(
    ("words", "problem", "do"),
    [
        ([], "expected a script", "fitdoctor run train.py"),
        (["trian.py"], "no file 'trian.py'", "did you mean `train.py`?"),
        (["nowhere/x.py"], "no file", "give the path"),
        (["-m"], "expected a module", "-m package.train"),
        (["--whole", "--steps", "3", "train.py"], "--whole runs the script to its end", "drop one"),
        (["--json", ".", "train.py"], "found the folder", "name a file"),
        (["--html", ".", "train.py"], "found the folder", "name a file"),
        (["--html", "-", "train.py"], "--html writes a file", "fitdoctor report --format html"),
        (["--json", "no/such/folder/x.json", "train.py"], "No such file or directory", "name a file"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_runs(script: str, words: list[str], problem: str, do: str) -> None:
    launcher = Launcher(ended())
    with pytest.raises((UsageError, CannotWrite)) as caught:
        command.run(parsed(*words), launcher)
    assert problem in caught.value.problem
    assert do in caught.value.do
    assert caught.value.exit_code == 2
    assert launcher.options is None


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", ""])
def test_steps_are_counted_in_whole_numbers(value: str) -> None:
    with pytest.raises(UsageError, match="whole number"):
        parsed(f"--steps={value}", "train.py")


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf", ""])
def test_a_budget_is_a_time(value: str) -> None:
    with pytest.raises(UsageError, match="number of seconds"):
        parsed(f"--budget={value}", "train.py")


@pytest.mark.parametrize(
    ("whole", "end", "code"),
    [
        (False, ended(reason="capped"), 0),
        (False, ended(reason="finished"), 0),
        (False, ended(reason="finished", returncode=5), 5),
        (False, ended(reason="exception", returncode=1), 1),
        (False, ended(reason="signal", returncode=-9), 137),
        (False, ended(reason="signal", returncode=137), 137),
        (False, ended(reason="finished", training_seen=False), 4),
        (False, ended(reason="exception", returncode=1, training_seen=False), 1),
        (True, ended(reason="finished", training_seen=False), 0),
        (True, ended(reason="finished", returncode=3), 3),
        (True, ended(reason="signal", returncode=-15), 143),
    ],
)
def test_exit_codes(script: str, whole: bool, end: SimpleNamespace, code: int) -> None:
    assert command.exit_code(end, whole=whole) == code
    assert command.run(parsed(*(["--whole"] if whole else []), script), Launcher(end)) == code


def test_the_report_is_on_stdout_and_the_talk_on_stderr(script: str, capfd: pytest.CaptureFixture[str]) -> None:
    end = ended(message="stopped after 212 steps")
    child = [sys.executable, "-c", "print('own output')"]
    command.run(parsed("--json", "out.json", script), Launcher(end, child))
    out, err = capfd.readouterr()
    assert out.startswith("own output\n")
    assert samples.SLOW.headline[:40] in out
    assert out.rstrip().endswith("fitdoctor fix examples/slow_images.py")
    for said in ("10 of 100 steps", "stopped after 212 steps", "the capture is x", "the report is out.json"):
        assert said in err
        assert said not in out
    assert_contract(Path("out.json").read_text("utf-8"))


def test_the_page_is_written_beside_the_report(script: str, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    end = ended(capture=Path(Run().fit().capture(tmp_path).path))
    assert command.run(parsed("--html", "out.html", script), Launcher(end)) == 0
    out, err = capfd.readouterr()
    assert "One step" in out
    assert "the report to look at is out.html" in err
    assert Path("out.html").read_text("utf-8").startswith("<!doctype html>")


def test_json_on_stdout_is_alone_there(script: str, capfd: pytest.CaptureFixture[str]) -> None:
    child = [sys.executable, "-c", "print('own output')"]
    command.run(parsed("--json", "-", script), Launcher(ended(), child))
    out, err = capfd.readouterr()
    assert_contract(out)
    assert "own output" in err
    assert "Type next" in err
    os.write(1, b"still open")
    assert capfd.readouterr().out == "still open"


def test_quiet_shows_no_progress(script: str, capfd: pytest.CaptureFixture[str]) -> None:
    launcher = Launcher(ended())
    command.run(parsed("--quiet", script), launcher)
    assert launcher.options is not None
    assert launcher.options.quiet
    assert "10 of 100 steps" not in capfd.readouterr().err


def test_no_training_is_said_and_nothing_is_claimed(script: str, capfd: pytest.CaptureFixture[str]) -> None:
    end = ended(reason="finished", training_seen=False, message="the script ended and no training was seen")
    assert command.run(parsed("--json", "out.json", script), Launcher(end)) == 4
    out, err = capfd.readouterr()
    assert out == ""
    assert "no training was seen" in err
    assert not Path("out.json").exists()


def test_no_capture_at_all(script: str, capfd: pytest.CaptureFixture[str]) -> None:
    end = ended(capture=None, training_seen=False, reason="exception", returncode=1, message="it broke")
    assert command.run(parsed(script), Launcher(end)) == 1
    assert capfd.readouterr().err.endswith("fitdoctor: it broke\n")


@pytest.mark.parametrize("error", [ZeroDivisionError("ours"), UsageError("cannot read")])
def test_a_failure_of_ours_never_changes_a_whole_run(
    script: str,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    def broken(path: Path) -> None:
        raise error

    monkeypatch.delenv("FITDOCTOR_DEBUG", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("fitdoctor.pipeline.open_capture", broken)
    assert command.run(parsed("--whole", script), Launcher(ended(reason="finished", returncode=5))) == 5
    assert str(error) in capfd.readouterr().err
    with pytest.raises(type(error)):
        command.run(parsed(script), Launcher(ended()))


def test_the_json_is_the_whole_file_or_none(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.json").write_text("{}")
    Path("out.json").chmod(0o640)
    Path("link.json").symlink_to("out.json")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(CannotWrite, match="No space left"):
            command.run(parsed("--json", "out.json", script), Launcher(ended()))
    assert Path("out.json").read_text() == "{}"
    command.run(parsed("--json", "link.json", script), Launcher(ended()))
    assert Path("link.json").is_symlink()
    assert json.loads(Path("out.json").read_text("utf-8"))["schema"] == "fitdoctor.report/1"
    assert Path("out.json").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir()) == ["link.json", "out.json", "train.py"]


def test_a_script_whose_name_looks_like_an_option(cli: Cli, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "-train.py").write_text("import sys\nprint('it ran with', sys.argv[1:])\n")
    done = cli("run", "--", "-train.py", "--epochs", "5")
    assert done.stdout == "it ran with ['--epochs', '5']\n", done.stderr

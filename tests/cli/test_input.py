"""`fitdoctor input`: a script is run as `run` runs it, a capture is looked at again."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from fitdoctor.cli import input as command
from fitdoctor.cli.main import build_parser, main
from fitdoctor.errors import UsageError
from tests.cli.conftest import Cli
from tests.cli.test_run import Launcher, ended
from tests.report import inputs


def parsed(*words: str) -> argparse.Namespace:
    ours, theirs = command.split(words)
    args = build_parser()[0].parse_args(["input", *ours])
    args.rest = theirs
    return args


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return Path(inputs.pipeline().capture(folder).path)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    return "train.py"


def test_a_script_is_run_capped_with_its_own_arguments(
    script: str, recorded: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    launcher = Launcher(ended(capture=recorded, message="stopped after 212 steps"))
    words = ("--steps", "50", "--budget", "9", "--no-lab", "--capture", "x.fitdoctor", script, "--json", "theirs")
    assert command.run(parsed(*words), launcher) == 0
    options = launcher.options
    assert options is not None
    assert (options.target, options.args, options.steps, options.budget) == (script, ("--json", "theirs"), 50, 9)
    assert (options.whole, options.lab, options.capture) == (False, False, Path("x.fitdoctor"))
    out, err = capfd.readouterr()
    assert out.startswith("fitdoctor input · train.py · tf.data")
    assert "What did AUTOTUNE choose?" in out
    assert "stopped after 212 steps" in err
    assert f"the capture is {recorded}" in err


def test_a_module_is_run(recorded: Path) -> None:
    launcher = Launcher(ended(capture=recorded))
    command.run(parsed("-m", "package.train", "--its"), launcher)
    assert launcher.options is not None
    assert (launcher.options.target, launcher.options.module) == ("package.train", True)


def test_json_on_stdout_is_alone_there(script: str, recorded: Path, capfd: pytest.CaptureFixture[str]) -> None:
    child = [sys.executable, "-c", "print('own output')"]
    command.run(parsed("--json", "-", script), Launcher(ended(capture=recorded), child))
    out, err = capfd.readouterr()
    assert json.loads(out)["schema"] == "fitdoctor.input/1"
    assert "own output" in err
    assert "What did AUTOTUNE choose?" in err


@pytest.mark.parametrize(
    ("end", "code"),
    [({}, 0), ({"reason": "finished", "training_seen": False}, 4), ({"reason": "exception", "returncode": 3}, 3)],
)
def test_exit_codes(script: str, recorded: Path, end: dict[str, object], code: int) -> None:
    assert command.run(parsed(script), Launcher(ended(capture=recorded, **end))) == code


def test_a_capture_is_looked_at_again(recorded: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["input", "--json", str(recorded.with_suffix(".json")), str(recorded)]) == 0
    assert "The pipeline  as elements pass it" in capfd.readouterr().out
    assert json.loads(recorded.with_suffix(".json").read_text("utf-8"))["adapter"] == "tf.data"


def test_the_newest_capture(cli: Cli, home: Path) -> None:
    nothing = cli("input")
    assert nothing.returncode == 2
    assert "fitdoctor run your_script.py" in nothing.stderr
    (home / "runs").mkdir(parents=True)
    inputs.loader().capture(home / "runs")
    seen = cli("input")
    assert seen.returncode == 0, seen.stderr
    assert "reading the newest capture" in seen.stderr
    assert "workers     2 threads" in seen.stdout


def test_a_capture_without_training_says_so(capture: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["input", str(capture)]) == 4
    out, err = capfd.readouterr()
    assert out == ""
    assert "there is no input to show" in err


@pytest.mark.parametrize("words", [("x.fitdoctor", "more"), ("--steps", "5", "x.fitdoctor"), ("--quiet",)])
def test_what_means_nothing_beside_a_capture_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="→"):
        command.run(parsed(*words))


def test_a_missing_script_is_said(script: str) -> None:
    with pytest.raises(UsageError, match=r"did you mean `train\.py`"):
        command.run(parsed("trian.py"))

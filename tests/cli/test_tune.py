"""What is said about a command line that cannot be used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fitdoctor.cli import tune
from fitdoctor.errors import UsageError
from fitdoctor.tune import on_ray, search
from tests.cli.conftest import Cli


def test_words_are_ours_until_the_script() -> None:
    ours, theirs = tune.split(["--trials", "4", "--only", "workers", "--unsafe", "train.py", "--trials", "9"])
    assert ours == ["--trials", "4", "--only", "workers", "--unsafe"]
    assert theirs == ["train.py", "--trials", "9"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "step_per_execution"], "did you mean 'steps_per_execution'?"),
        (["--only", "batch_size"], "consent to that: --unsafe"),
        (["--on", "slurm"], "expected --on local or --on ray, found 'slurm'"),
        (["--address", "10.0.0.1:6379"], "it needs --on ray"),
        (["--trials", "0"], "expected a whole number of trials above zero"),
        ([], "found no file 'train.py'"),
    ],
)
def test_what_cannot_be_used(cli: Cli, words: list[str], told: str) -> None:
    done = cli("tune", *words, "train.py")
    assert done.returncode == 2
    assert told in done.stderr


def test_no_script(cli: Cli) -> None:
    done = cli("tune")
    assert done.returncode == 2
    assert "fitdoctor tune train.py" in done.stderr


def test_a_script_that_does_not_train(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('no training')\n")
    done = cli("tune", "--quiet", str(script))
    assert done.returncode == 4, done.stderr
    assert "could not be measured: No training was seen" in done.stderr


def test_libraries_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"fitdoctor\[tune\]"):
        search.optuna()
    with pytest.raises(UsageError, match=r"fitdoctor\[ray\]"):
        on_ray.Cluster()

"""`fitdoctor env` as a user meets it."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from fitdoctor.cli import env
from fitdoctor.errors import UsageError
from fitdoctor.facts.machine import Line
from fitdoctor.probes import frameworks

FAKES = {
    "crash": "import os; os.abort()",
    "raise": "raise ImportError('libcudart.so.12: cannot open shared object file')",
    "hang": "import threading; threading.Event().wait()",
    "noise": "print('hello'); import sys; sys.stderr.write('warning'); answer = {'gpus': 0}",
    "leave": "raise SystemExit(7)",
}


def run_env(*arguments: str, timeout: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fitdoctor.cli.env", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def gone(pid: int, patience: float = 20.0) -> bool:
    """Tell whether a process ended; the kernel may take a moment to bury it."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, str]:
    """Broken frameworks that come before the real ones on the path."""
    for name, body in (("tensorflow", FAKES["crash"]), ("jax", FAKES["raise"]), ("torch", FAKES["leave"])):
        (tmp_path / f"{name}.py").write_text(body)
        info = tmp_path / f"{name}-9.9.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
    before = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path), before]))}


def test_broken_installs_become_unknown_and_break_nothing(broken: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKES["hang"])
    done = run_env("--json", "--timeout", "5", **broken)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    lines = {line["subject"]: line for line in answer["lines"]}
    assert answer["schema"] == "fitdoctor.env/1"
    for name, reason in (
        ("tensorflow", "SIGABRT"),
        ("jax", "libcudart.so.12"),
        ("torch", "no answer within 5 s"),
    ):
        assert lines[name]["state"] == "unknown"
        assert reason in lines[name]["found"]
        assert lines[name]["do"] == f'python -c "import {name}"'


def test_text_fits_80_columns_without_colour(broken: dict[str, str]) -> None:
    done = run_env(NO_COLOR="1", COLUMNS="80", **broken)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.rstrip().endswith("Next: fitdoctor run SCRIPT")
    assert "3 unknown" in done.stdout
    assert done.stderr == ""


def test_a_terminal_without_utf8_gets_every_word(broken: dict[str, str]) -> None:
    done = run_env(PYTHONIOENCODING="ascii", **broken)
    assert done.returncode == 0, done.stderr
    assert "cores" in done.stdout


def test_commands_can_be_copied(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    command = "export OMP_NUM_THREADS=16 TF_NUM_INTRAOP_THREADS=16 TF_NUM_INTEROP_THREADS=16 AND_MORE=1"
    env.render((Line("threads", "problem", "too many", command), Line("cores", "pass", "8 [usable]")))
    out = capsys.readouterr().out
    assert f"→ {command}\n" in out
    assert "8 [usable]" in out
    assert "1 problem." in out


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("crash", "crashed with SIGABRT"),
        ("raise", "libcudart.so.12"),
        ("leave", "exit code 7"),
        ("hang", "within 1 s"),
    ],
)
def test_failures_of_a_question(kind: str, reason: str) -> None:
    assert reason in frameworks.ask_code(FAKES[kind], timeout=1.0 if kind == "hang" else 60.0)["failure"]


def test_chatter_does_not_hide_the_answer() -> None:
    assert frameworks.ask_code(FAKES["noise"], timeout=60.0) == {"seen": {"gpus": 0}}


def test_a_hanging_question_takes_its_children_along(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    question = (
        "import subprocess, sys, threading, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)'])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        "threading.Event().wait()"
    )
    start = time.monotonic()
    assert "failure" in frameworks.ask_code(question, timeout=3.0)
    assert time.monotonic() - start < 60
    assert gone(int(note.read_text()))


def test_the_backend_is_found_where_keras_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    assert (frameworks.keras()["backend"], frameworks.keras()["backend_from"]) == ("tensorflow", "default")
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    assert frameworks.keras()["backend"] == "jax"
    (tmp_path / "keras.json").write_text("not json")
    assert frameworks.keras()["backend_from"] == "default"
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert (frameworks.keras()["backend"], frameworks.keras()["backend_from"]) == ("torch", "KERAS_BACKEND")


def test_a_timeout_must_be_positive() -> None:
    with pytest.raises(UsageError, match="above 0"):
        env.run(argparse.Namespace(json=False, timeout=0.0))


def test_the_parser() -> None:
    parser = argparse.ArgumentParser()
    env.add_parser(parser.add_subparsers())
    args: Any = parser.parse_args(["env", "--json"])
    assert args.run is env.run
    assert (args.json, args.timeout) == (True, 90.0)


@pytest.mark.framework
def test_the_real_frameworks_answer() -> None:
    installed = frameworks.installed()
    if not installed:
        pytest.skip("no framework is installed")
    done = run_env("--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [each["name"] for each in answer["frameworks"]] == [each["name"] for each in installed]
    for each in answer["frameworks"]:
        assert each["version"]
        assert each["seen"]["gpus"] >= 0
    assert {"python", "cores", "memory", "gpu", "keras"} <= {line["subject"] for line in answer["lines"]}

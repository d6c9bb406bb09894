"""Shared helpers: real child processes, each with a home of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from fitdoctor.capture import store
from fitdoctor.model import Capture
from tests import browsing

# How long an example takes says nothing on a machine that others use too.
hypothesis.settings.register_profile("shared machine", deadline=None)
hypothesis.settings.load_profile("shared machine")

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "PYTHONWARNINGS": "ignore"}


def at_a_terminal(*words: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start fitdoctor as a terminal does: in a group of processes that all get what is typed."""
    return subprocess.Popen(
        [sys.executable, "-m", "fitdoctor", *words],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A test run in the background of a shell ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@dataclass(frozen=True)
class Result:
    """How a child ended."""

    code: int
    out: str
    err: str
    capture_path: Path

    @property
    def capture(self) -> Capture:
        return store.read(self.capture_path)


class Doctor:
    """Runs scripts plainly and under `fitdoctor run`, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.home = folder / "state"
        self._runs = 0

    def script(self, text: str, name: str = "train.py") -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def env(self, backend: str | None = None, **more: str) -> dict[str, str]:
        env = {**os.environ, **QUIET, "FITDOCTOR_HOME": str(self.home), **more}
        env.pop("PYTHONPATH", None)
        if backend:
            env["KERAS_BACKEND"] = backend
        return env

    def plain(self, *command: str, backend: str | None = None, timeout: float = 300, **env: str) -> Result:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.work,
            env=self.env(backend, **env),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Result(done.returncode, done.stdout, done.stderr, Path())

    def run(
        self, *command: str, backend: str | None = None, timeout: float = 300, lab: bool = False, **env: str
    ) -> Result:
        """Observe a script; `lab`: and experiment with it, as users do, which takes a while."""
        self._runs += 1
        if not lab and "--whole" not in command:
            command = ("--no-lab", *command)
        capture = self.folder / f"run{self._runs}.fitdoctor"
        done = subprocess.run(
            [sys.executable, "-m", "fitdoctor", "run", "--capture", str(capture), *command],
            cwd=self.work,
            env=self.env(backend, **env),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Result(done.returncode, done.stdout, done.stderr, capture)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start a real browser; where there is none, the test is skipped."""
    with browsing.started() as found:
        yield found


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path)

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fitdoctor.capture import store

# Absolute: the commands start in other folders.
PYTHONPATH = os.pathsep.join(
    os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part
)

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the commands a state folder of their own."""
    folder = tmp_path / "state"
    monkeypatch.setenv("FITDOCTOR_HOME", str(folder))
    return folder


@pytest.fixture
def cli(home: Path, tmp_path: Path) -> Cli:
    """Run `fitdoctor` in a process of its own, in an empty folder."""

    def call(*words: str, env: Mapping[str, str] | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
        here = tmp_path / "here"
        here.mkdir(exist_ok=True)
        return subprocess.run(
            [sys.executable, "-m", "fitdoctor", *words],
            capture_output=True,
            text=True,
            cwd=here,
            input=stdin,
            timeout=120,
            env={**os.environ, "PYTHONPATH": PYTHONPATH, "PYTHONIOENCODING": "utf-8", **(env or {})},
        )

    return call


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Write a small capture of a run without steps."""
    path = tmp_path / f"small{store.SUFFIX}"
    writer = store.Writer(path)
    writer.meta(
        {
            "command": ["train.py"],
            "script": "train.py",
            "mode": "capped",
            "backend": "tensorflow",
            "versions": {"keras": "3.15.1"},
            "account": {"imports": 2.0, "rest": 1.0},
            "wall_s": 3.0,
            "exit": {"code": 0, "signal": None, "reason": "finished"},
        }
    )
    writer.seal()
    return path

"""A project of two files, and a capture that finds something in both."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.captures.build import Run

SRC = Path(__file__).resolve().parents[2] / "src"
TRAIN = b"""\
import keras
from model import build

keras.config.set_floatx("float64")
save = keras.callbacks.ModelCheckpoint("last.keras", save_freq=20)  # often
build().fit(x, y, callbacks=[save])
"""
MODEL = b"""\
import keras


def build():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    return model
"""
FIXED_TRAIN = TRAIN.replace(b"save_freq=20", b"save_freq=200")


@dataclass
class Project:
    """Files of a user's, in a folder of their own, with fitdoctor's state beside it."""

    folder: Path
    home: Path
    files: dict[str, Path] = field(default_factory=dict)

    def write(self, **texts: bytes) -> Project:
        for name, text in texts.items():
            path = self.folder / f"{name}.py"
            path.write_bytes(text)
            self.files[name] = path
        return self

    def capture(self, *, also: tuple[Path, ...] = (), sources: dict[Path, bytes] | None = None) -> Path:
        """Write a capture of a run of these files that was slow for four causes."""
        run = Run(script=str(self.folder / "train.py"), cwd=str(self.folder), command=["train.py"])
        run.fit(compute_ms=20, epochs_planned=100, dtype="float64")
        run.callback("ModelCheckpoint", ms=0.01, saving_ms=20, builtin=True)
        for name, ms in (("jit_compile=True", 10), ("steps_per_execution=8", 12), ("float32", 10)):
            run.trial(name, baseline_ms=20, changed_ms=ms)
        held = sources or {path: path.read_bytes() for path in (*self.files.values(), *also)}
        for path, data in held.items():
            run.source(data.decode("utf-8", "surrogateescape"), str(path))
        return Path(run.capture(self.home.parent).path)

    def fix(self, *words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        parts = [str(SRC), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        return subprocess.run(
            [sys.executable, "-m", "fitdoctor", "fix", *words],
            cwd=self.folder,
            env={
                **os.environ,
                "FITDOCTOR_HOME": str(self.home),
                "PYTHONPATH": os.pathsep.join(parts),
                "PYTHONIOENCODING": "utf-8",
                "COLUMNS": "200",
                **env,
            },
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def bytes(self) -> dict[str, bytes]:
        return {name: path.read_bytes() for name, path in self.files.items()}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    home = tmp_path / "state"
    monkeypatch.setenv("FITDOCTOR_HOME", str(home))
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder, home).write(train=TRAIN, model=MODEL)

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.cli.main import main

EAGER = """\
import keras

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse", run_eagerly=True)
model.fit(x, y)
"""
LINE = "data = tf.data.Dataset.range(1000).map(lambda n: tf.cast(n, tf.float32) / 9).batch(32)\n"
FIXED = "data = tf.data.Dataset.range(1000).batch(32).map(lambda n: tf.cast(n, tf.float32) / 9)\n"
SLOW, FAST = (f"import tensorflow as tf\n\n{line}" for line in (LINE, FIXED))
"""What `--fix` mends, and what becomes of it."""


@dataclass(frozen=True)
class Done:
    """What a call of the command gave."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def found(self) -> list[tuple[str, int]]:
        return [(each["rule"], each["site"]["line"]) for each in self.data["suspicions"]]


Check = Callable[..., Done]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def check(here: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Check:
    """Run `fitdoctor check` in this process."""

    def call(*words: str) -> Done:
        capfdbinary.readouterr()
        code = main(["check", *words])
        out, err = capfdbinary.readouterr()
        return Done(code, out.decode("utf-8"), err.decode("utf-8"))

    return call

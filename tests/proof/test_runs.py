"""One run of a version: what becomes of it where it fails, hangs, or is asked to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.capture.launch import Ended, Options
from fitdoctor.errors import UsageError
from fitdoctor.proof import runs
from fitdoctor.proof.runs import LEAST_PATIENCE, PATIENCE, CannotTime, Patience
from tests.conftest import Doctor

OPTIONS = Options(target="train.py", steps=200)


def starting(code: int, message: str = "", took: Callable[[Callable[[Any], bool]], None] = lambda stop: None) -> Any:
    def start(options: Options, folder: Path, *, aligned: bool, stop: Callable[[Any], bool]) -> Ended:
        took(stop)
        return Ended(folder, code, "signal" if code > 128 else "exception", True, message)

    return start


@pytest.mark.parametrize(("code", "message"), [(1, "The script ended with exit code 1."), (137, "out of memory")])
def test_a_run_that_fails_says_so(monkeypatch: pytest.MonkeyPatch, code: int, message: str) -> None:
    monkeypatch.setattr(runs, "start", starting(code, message))
    with pytest.raises(CannotTime, match=message) as raised:
        runs.once(OPTIONS)
    assert not raised.value.trained


@pytest.mark.parametrize("code", [129, 130, 143])
def test_a_run_that_somebody_ended_is_no_failure_of_the_change(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(runs, "start", starting(code))
    with pytest.raises(UsageError) as raised:
        runs.once(OPTIONS)
    assert not isinstance(raised.value, CannotTime)


def test_a_run_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    patience = Patience(lambda: now[0])

    def hang(stop: Callable[[Any], bool]) -> None:
        while not stop({}):
            now[0] += 0.5
            assert now[0] < 1000, "nobody ended it"

    monkeypatch.setattr(runs, "start", starting(143, took=hang))
    patience.begin()
    now[0] = 20.0
    patience.end()
    with pytest.raises(CannotTime, match=r"train\.py had not come to its end after 5 min 00 s"):
        runs.once(OPTIONS, patience=patience)


def test_patience_is_that_of_the_longest_run() -> None:
    now = [0.0]
    patience = Patience(lambda: now[0])

    def run(seconds: float) -> bool:
        patience.begin()
        now[0] += seconds
        over = patience.over()
        if not over:
            patience.end()
        return over

    assert not run(100_000), "the first may take as long as it likes"
    now[0], patience = 0.0, Patience(lambda: now[0])
    assert not run(1)
    assert not run(LEAST_PATIENCE)
    assert not run(LEAST_PATIENCE * PATIENCE - 1)
    assert run(LEAST_PATIENCE * PATIENCE * PATIENCE)


SCRIPT = """
import json
import keras
import numpy as np

told = []


class Told(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        told.append(float(logs["loss"]))
        if len(told) == 2:
            json.dump(told, open("told.json", "w"))


keras.utils.set_random_seed(1)
x = np.random.default_rng(0).standard_normal((2048, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=32, epochs=20, verbose=0, callbacks=[Told()] * TELLS)
"""


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_the_first_steps_tell_their_losses(doctor: Doctor, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = doctor.script(SCRIPT.replace("TELLS", "0"))
    assert doctor.plain(str(doctor.script(SCRIPT.replace("TELLS", "1"), "told.py")), backend=backend).code == 0
    for name, value in doctor.env().items():
        monkeypatch.setenv(name, value)
    found = runs.once(Options(target=str(script), steps=30, backend=backend))
    told = json.loads((doctor.work / "told.json").read_text())
    assert found.first == {(0, 1.0): told[0], (0, 2.0): told[1]}

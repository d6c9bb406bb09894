"""Real trainings: settings take effect in a script that knows nothing of them, and the best are proved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.capture.launch import Options
from fitdoctor.tune.attempt import Job, Result, attempt
from fitdoctor.tune.settings import Settings
from tests.conftest import QUIET, Doctor

ARRAYS = """
import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).standard_normal((8192, 16)).astype("float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01), "mse")
model.fit(x, x[:, :1], batch_size=16, epochs=20, shuffle=False, verbose=0)
model.save("model.keras")
"""
DATASET = """
import keras
import numpy as np
import tensorflow as tf

x = np.random.default_rng(0).standard_normal((4096, 16)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(64, seed=1).batch(16, drop_remainder=True)
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=4, verbose=0)
"""
PYDATASET = """
import keras
import numpy as np

class Data(keras.utils.PyDataset):
    def __len__(self):
        return 300

    def __getitem__(self, at):
        x = np.full((16, 4), at, "float32")
        return x, x[:, :1]

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Data(), epochs=3, verbose=0)
"""
LOADER = """
import keras
import torch
from torch.utils.data import DataLoader, TensorDataset

x = torch.arange(4096.0).reshape(-1, 1) / 4096
loader = DataLoader(TensorDataset(x, x), batch_size=16)
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(loader, epochs=3, verbose=0)
"""


def tried(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, on: str, text: str, steps: int = 40, **settings: Any
) -> Result:
    """Run a script with some settings."""
    doctor.script(text)
    monkeypatch.chdir(doctor.work)
    for name, value in {**QUIET, "KERAS_BACKEND": on}.items():
        monkeypatch.setenv(name, value)
    return attempt(Job("live", Options(target="train.py", steps=steps), Settings(**settings)))


@pytest.mark.framework
@pytest.mark.parametrize(
    ("backend", "settings"),
    [
        (
            "tensorflow",
            {"steps_per_execution": 8, "jit_compile": True, "batch_size": 64, "precision": "mixed_bfloat16"},
        ),
        ("jax", {"steps_per_execution": 8, "batch_size": 64, "precision": "mixed_bfloat16"}),
        ("torch", {"batch_size": 64, "precision": "mixed_bfloat16"}),
        ("tensorflow", {"backend": "jax", "batch_size": 32}),
    ],
)
def test_settings_take_effect(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, backend: str, settings: dict[str, Any]
) -> None:
    result = tried(doctor, monkeypatch, backend, ARRAYS, **settings)
    assert result.seen is not None, result.failed
    about = result.seen.about
    assert {name: about[name] for name in settings} == settings
    assert about["backend"] == settings.get("backend", backend)
    times = settings["batch_size"] / 16
    assert about["learning_rate"] == pytest.approx([0.01, 0.01 * times])
    assert result.seen.batch == settings["batch_size"]
    assert result.seen.steps == 20 * 8192 / settings["batch_size"]
    assert sorted(path.name for path in doctor.work.iterdir()) == ["train.py"], "nothing is saved"


@pytest.mark.framework
def test_a_pipeline_gets_other_batches_and_a_prefetch(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tried(doctor, monkeypatch, "tensorflow", DATASET, batch_size=32, prefetch=True)
    assert result.seen is not None, result.failed
    assert (result.seen.about["batch_size"], result.seen.about["prefetch"]) == (32, True)
    assert result.seen.about["operators"] == ["Prefetch", "Batch"]
    assert result.seen.batch == 32


@pytest.mark.framework
def test_other_workers(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tried(doctor, monkeypatch, "jax", PYDATASET, workers=4)
    assert result.seen is not None, result.failed
    assert result.seen.about["workers"] == 4
    assert result.seen.batch is None, "nobody knows"
    loaded = tried(doctor, monkeypatch, "torch", LOADER, workers=2)
    assert loaded.seen is not None, loaded.failed
    assert loaded.seen.about["workers"] == 2


@pytest.mark.framework
def test_a_script_that_insists(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    insists = ARRAYS.replace("import numpy", "keras.config.set_dtype_policy('float32')\nimport numpy")
    result = tried(doctor, monkeypatch, "jax", insists, precision="mixed_bfloat16")
    assert result.failed == "precision=mixed_bfloat16 did not take effect: the run had float32"


@pytest.mark.framework
def test_a_run_is_stopped_while_it_trains(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    doctor.script(ARRAYS.replace("epochs=20", "epochs=2000"))
    monkeypatch.chdir(doctor.work)
    for name, value in {**QUIET, "KERAS_BACKEND": "torch"}.items():
        monkeypatch.setenv(name, value)
    told: list[tuple[int, float]] = []

    def look(chunk: int, step_s: float) -> bool:
        told.append((chunk, step_s))
        return chunk >= 1

    result = attempt(Job("live", Options(target="train.py", steps=20_000), Settings()), look)
    assert result.stopped
    assert told[-1][0] in (1, 2)
    assert 1e-5 < told[-1][1] < 1


@pytest.mark.framework
@pytest.mark.slow
def test_the_whole_of_it(doctor: Doctor) -> None:
    """Tiny steps: most of their time is launching them, so several at a time are faster."""
    path = doctor.script(ARRAYS.replace("epochs=20", "epochs=200"))
    before = path.read_bytes()
    words = ("-m", "fitdoctor", "tune", "--only", "steps_per_execution", "--steps", "600", "--budget", "150")
    done = doctor.plain(*words, "--json", "tuned.json", "train.py", backend="tensorflow", timeout=600)
    assert done.code == 0, done.out + done.err
    told = json.loads((doctor.work / "tuned.json").read_text())
    assert told["trials"][0]["state"] == "own"
    assert len(told["trials"]) == 3
    assert told["trials"][told["winner"]]["settings"]["steps_per_execution"] in (8, 32)
    assert told["proof"]["verdict"] == "PROVED"
    assert told["proof"]["equivalence"]["kind"] in ("identical", "within rounding")
    assert "model.compile(..., steps_per_execution=" in done.out
    assert path.read_bytes() == before
    assert sorted(each.name for each in doctor.work.iterdir()) == ["train.py", "tuned.json"]
    assert Path(told["search"]).exists()

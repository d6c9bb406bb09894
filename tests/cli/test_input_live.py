"""`fitdoctor input` on real trainings: what is written, what ran, what it costs, and what AUTOTUNE chose."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import Doctor

PIPELINE = """
import keras
import numpy as np
import tensorflow as tf

x = np.random.default_rng(0).standard_normal((4096, 64)).astype("float32")


def work(a):
    for _ in range(40):
        a = tf.sort(tf.reverse(a, [0]))
    return a, a[:1]


data = tf.data.Dataset.from_tensor_slices(x)
data = (
    data.shuffle(256, seed=1)
    .map(work, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(64)
)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(data, epochs=500, verbose=0)
"""

LOADER = """
import keras
import numpy as np


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 500

    def __getitem__(self, index):
        x = np.sort(np.random.default_rng(index).standard_normal((256, 64)), axis=1).astype("float32")
        return x, x[:, :1]


model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(Rows(workers=2), epochs=500, verbose=0)
"""


def shown(doctor: Doctor, script: str, backend: str) -> tuple[str, dict[str, Any]]:
    target = doctor.folder / "input.json"
    words = ["input", "--steps", "100", "--budget", "20", "--quiet", "--json", str(target)]
    done = subprocess.run(
        [sys.executable, "-m", "fitdoctor", *words, str(doctor.script(script))],
        cwd=doctor.work, env=doctor.env(backend), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(target.read_text())


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_pipeline(doctor: Doctor, backend: str) -> None:
    text, data = shown(doctor, PIPELINE, backend)
    stages = {stage["op"]: stage for stage in data["stages"]}
    assert list(stages)[:4] == ["TensorSlice", "Shuffle", "ParallelMap", "Batch"]
    assert [stages[op]["site"]["line"] for op in list(stages)[:4]] == [15, 17, 18, 19]
    work = stages["ParallelMap"]
    assert work["slowest"], data["stages"]
    assert work["parallel"]["tuned"]
    assert work["parallel"]["most"] >= 1
    assert work["per_step"] == 64
    assert work["bytes"] == 65 * 4
    assert 0 < work["wall_ms"]["low"] <= work["wall_ms"]["mid"] <= work["wall_ms"]["high"]
    assert work["cpu_ms"]["mid"] > 0
    assert stages["TensorSlice"]["cache_bytes"] == 4096 * 64 * 4
    assert stages["Shuffle"]["notes"] == ["random, seeded"]
    assert data["alone"]["ms"]["mid"] > 0
    assert "A step waits" in data["waits"]
    assert any("calls at once" in line for line in data["autotune"])
    assert "train.py:18  .map(work, num_parallel_calls=tf.data.AUTOTUNE)" in text
    assert "What did AUTOTUNE choose?" in text


@pytest.mark.framework
def test_a_loader(doctor: Doctor) -> None:
    text, data = shown(doctor, LOADER, "torch")
    loader = data["loader"]
    assert (loader["kind"], loader["name"], loader["workers"], loader["processes"]) == ("PyDataset", "Rows", 2, False)
    assert loader["batch_ms"]["mid"] > 0
    assert loader["site"]["line"] == 10
    assert data["stages"] == []
    assert "workers     2 threads" in text

"""Models that the lab cannot treat like others: the run ends well, and what could not be tried is said.

Each is a script as a user has it, run as a user runs it: watched, unwound, experimented with.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from typing import Any

import pytest

from fitdoctor.rules import all_rules
from tests.conftest import Doctor

START = """
import keras
import numpy as np

keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
"""
UNCLONEABLE = """
class Recurrent(keras.Model):
    def __init__(self, units, transform):
        super().__init__()
        self.inner = keras.layers.LSTM(units, recurrent_dropout=0.2)
        self.head = keras.layers.Dense(1)
        self.transform = transform  # nothing that Keras could write down

    def call(self, x, training=None):
        return self.head(self.inner(self.transform(x), training=training))

x = rng.standard_normal((640, 5, 4)).astype("float32")
model = Recurrent(8, lambda x: x * 2.0)
model.compile("adam", "mse")
model.fit(x, x[:, 0, :1], batch_size=32, epochs=100_000, verbose=0)
"""
OWN_TRAIN_STEP = """
import tensorflow as tf

class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(16, activation="relu")
        self.head = keras.layers.Dense(1)
        self.tracker = keras.metrics.Mean(name="distance")

    def call(self, x):
        return self.head(self.inner(x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            distance = tf.reduce_mean(tf.abs(self(x, training=True) - y))
        self.optimizer.apply(tape.gradient(distance, self.trainable_variables), self.trainable_variables)
        self.tracker.update_state(distance)
        return {"distance": self.tracker.result()}

x = rng.standard_normal((640, 8)).astype("float32")
model = Own()
model.compile(optimizer="adam")
model.fit(x, x[:, :1], batch_size=32, epochs=100_000, verbose=0)
"""
RAISING_METRIC = """
class Picky(keras.metrics.Mean):
    def update_state(self, y_true, y_pred, sample_weight=None):
        if y_true.shape[0] != 16:
            raise ValueError("only ever meant for batches of 16")
        return super().update_state(y_true - y_pred)

x = rng.standard_normal((640, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("sgd", "mse", metrics=[Picky()])
model.fit(x, x[:, :1], batch_size=16, epochs=100_000, verbose=0)
"""
DYNAMIC_SHAPES = """
class Texts(keras.utils.PyDataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        length = 5 + index % 7
        return np.full((16, length), index, "int32"), np.ones((16, 1), "float32")

model = keras.Sequential(
    [keras.Input((None,), dtype="int32"), keras.layers.Embedding(50, 8), keras.layers.GlobalMaxPooling1D(),
     keras.layers.Dense(1)]
)
model.compile("adam", "mse")
model.fit(Texts(), epochs=100_000, verbose=0)
"""


@dataclass(frozen=True)
class Awkward:
    script: str
    backend: str
    tried: str
    """An experiment that was made all the same."""
    refused: str = ""
    """One that could not be made."""
    budget: int = 25


AWKWARD = {
    "a model that cannot be made anew": Awkward(
        UNCLONEABLE, "torch", "cached batch", "experiment: the backend's own recurrent kernel"
    ),
    "a train_step of its own": Awkward(OWN_TRAIN_STEP, "tensorflow", "cached batch"),
    "a metric that raises": Awkward(
        # Larger batches are tried last.
        RAISING_METRIC,
        "torch",
        "metrics off",
        "experiment: batch size",
        budget=30,
    ),
    "batches of many shapes": Awkward(DYNAMIC_SHAPES, "tensorflow", "cached batch"),
}


@pytest.mark.framework
@pytest.mark.parametrize("name", AWKWARD)
def test_the_run_ends_well_and_says_what_could_not_be_tried(doctor: Doctor, name: str) -> None:
    case = AWKWARD[name]
    script = doctor.script(START + textwrap.dedent(case.script))
    limits = ("--steps", "30", "--budget", str(case.budget))
    ran = doctor.run(*limits, "--json", "report.json", str(script), backend=case.backend, lab=True)
    assert ran.code == 0, ran.err
    assert "Traceback" not in ran.err
    capture = ran.capture
    assert case.tried in {trial.name for trial in capture.trials}, capture.gaps
    reasons = {gap.what: gap.reason for gap in capture.gaps}
    if case.refused:
        assert "budget" not in reasons[case.refused], reasons
    report: dict[str, Any] = json.loads((doctor.work / "report.json").read_text())
    assert report["run"]["step_ms"]["mid"] > 0
    outcomes = ("findings", "suspicions", "passed", "unknown", "not_applicable")
    said = {each["rule"] for outcome in outcomes for each in report[outcome]}
    assert said == {rule.name for rule in all_rules()}

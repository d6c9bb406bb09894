"""A real training from its start to its end: where its time goes, and the causes that only the whole run shows."""

from __future__ import annotations

import pytest

from fitdoctor.diagnosis import diagnose
from fitdoctor.model import Finding
from tests.conftest import Doctor

SCRIPT = """
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
x = np.random.rand(64, 8).astype("float32")
y = x[:, :1]
test = np.random.rand(20000, 8).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8).repeat()
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(gradient_accumulation_steps=4), "mse")
model.fit(data, steps_per_epoch=len(x), epochs=6, validation_data=(test, test[:, :1]))
"""


@pytest.mark.framework
def test_the_whole_run_of_a_real_training(doctor: Doctor) -> None:
    script = doctor.script(SCRIPT)
    ran = doctor.run("--whole", str(script), backend="tensorflow")
    assert ran.code == 0, ran.err
    report = diagnose(ran.capture)
    whole = {each["name"]: each["seconds"]["mid"] for each in report.run["whole"]}
    assert {"imports", "compiling", "steady steps", "validation", "between epochs"} <= set(whole)
    assert sum(whole.values()) == pytest.approx(report.run["projected_s"])
    # Watched to its end, what is projected is what was seen.
    seen = sum(ran.capture.account.values()) - ran.capture.account.get("rest", 0.0)
    assert sum(whole.values()) == pytest.approx(seen, rel=0.25)
    info = ran.capture.calls[0].info
    assert info["accumulation"] == 4
    assert info["async_possible"] is False
    outcomes = {each.rule: each for each in (*report.findings, *report.passed, *report.unknown)}
    miscounted = outcomes["miscounted-steps"]
    # On a busy machine so few steps may vary more than they could save; they are counted all the same.
    said = miscounted.cost.because if isinstance(miscounted, Finding) else miscounted.because
    assert "64 samples in 8 batches: as many steps as samples" in said
    line = next(number for number, text in enumerate(SCRIPT.splitlines(), 1) if "steps_per_epoch=len(x)" in text)
    assert miscounted.site.line == line if isinstance(miscounted, Finding) else f"train.py:{line}" in said
    assert outcomes["chatty-progress"].rule not in {each.rule for each in report.unknown}, "its hooks were timed"

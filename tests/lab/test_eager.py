"""Hand-written TensorFlow loops that run op by op: the lab compiles the step and tells what it gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor import pipeline
from fitdoctor.model import Report
from tests.conftest import Doctor, Result

LOOP = """
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
layers = [keras.layers.Dense(32, "relu") for _ in range(6)]
model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
data = np.random.default_rng(0).random((64, 16, 8), "float32")
seen = []


def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - x[:, :1]) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    {reads}
    return loss


for epoch in range(100_000):
    for x in data:
        train_step(tf.constant(x))
"""
CORPUS = Path(__file__).resolve().parents[2] / "corpus"


def run(doctor: Doctor, script: Path) -> tuple[Result, Report]:
    ran = doctor.run("--steps", "60", "--budget", "20", str(script), backend="tensorflow", lab=True)
    assert ran.code == 0, ran.err
    return ran, pipeline.diagnose_file(ran.capture_path)


@pytest.mark.framework
def test_a_loop_with_gradient_tape(doctor: Doctor) -> None:
    ran, report = run(doctor, doctor.script(LOOP.format(reads="pass")))
    (trial,) = ran.capture.trials
    assert trial.name == "compiled"
    found = report.findings[0]
    assert found.rule == "eager-step"
    # Twenty small layers op by op: compiling saves most of it on any machine (a wide margin).
    assert found.cost.saving.mid > 0.3
    assert found.site is not None
    assert found.site.line in (15, 18)


@pytest.mark.framework
def test_a_step_that_cannot_be_compiled_says_so(doctor: Doctor) -> None:
    ran, report = run(doctor, doctor.script(LOOP.format(reads="seen.append(loss.numpy())")))
    assert not ran.capture.trials
    assert any(gap.what == "experiment: the step compiled" for gap in ran.capture.gaps)
    assert "eager-step" in {each.rule for each in report.unknown}


RETRACED = """
import tensorflow as tf

weights = tf.Variable(tf.random.stateless_normal((64, 64), seed=(1, 2)))
optimizer = tf.keras.optimizers.Adam()
optimizer.build([weights])
data = tf.data.Dataset.from_tensors(tf.ones((8, 64))).repeat(40)


@tf.function
def train_step(x, rate):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weights) ** 2)
    optimizer.apply([tape.gradient(loss, weights) * rate], [weights])
    return loss


step = 0
for epoch in range(50):
    for x in data:
        step += 1
        train_step(x, 1 / step)
"""


@pytest.mark.framework
def test_a_step_that_is_traced_every_time_is_run_again_without(doctor: Doctor) -> None:
    ran, report = run(doctor, doctor.script(RETRACED))
    (trial,) = ran.capture.trials
    assert trial.name == "cached batch"
    assert not trial.baseline_ns
    found = report.findings[0]
    assert (found.rule, found.site and found.site.line) == ("retracing", 22)
    # Tracing and setting up a graph of forty ops takes far longer than to run it, on any machine (a wide margin).
    assert found.cost.saving.mid > 0.7


@pytest.mark.framework
def test_replicas_that_take_turns(doctor: Doctor) -> None:
    ran, report = run(doctor, CORPUS / "eager-replicas" / "slow.py")
    assert ran.capture.calls[0].info["replicas"] == 2
    assert [trial.name for trial in ran.capture.trials] == ["compiled"]
    assert report.findings[0].rule == "eager-replicas"
    assert "eager-step" not in {each.rule for each in report.findings}


@pytest.mark.framework
def test_compiled_replicas_are_no_eager_ones(doctor: Doctor) -> None:
    _, report = run(doctor, CORPUS / "eager-replicas" / "fast.py")
    assert not report.findings


UNJITTED = """
import jax
import keras
import numpy as np

keras.utils.set_random_seed(1)
layers = [keras.layers.Dense(32, "relu") for _ in range(6)]
model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)
data = np.random.default_rng(0).random((64, 16, 8), "float32")
seen = []


def compute_loss(trainable, fixed, x):
    y, fixed = model.stateless_call(trainable, fixed, x, training=True)
    return keras.ops.mean((y - x[:, :1]) ** 2), fixed


gradient = jax.value_and_grad(compute_loss, has_aux=True)


def train_step(state, x):
    trainable, fixed, slots = state
    (loss, fixed), gradients = gradient(trainable, fixed, x)
    trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
    {reads}
    return loss, (trainable, fixed, slots)


variables = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
state = [[each.value for each in group] for group in variables]
for epoch in range(100_000):
    for x in data:
        loss, state = train_step(state, x)
"""


@pytest.mark.framework
@pytest.mark.parametrize("reads", ["pass", "seen.append(float(loss))"])
def test_a_step_of_jax_that_nobody_jitted(doctor: Doctor, reads: str) -> None:
    script = doctor.script(UNJITTED.format(reads=reads))
    ran = doctor.run("--steps", "60", "--budget", "20", str(script), backend="jax", lab=True)
    assert ran.code == 0, ran.err
    report = pipeline.diagnose_file(ran.capture_path)
    (loop,) = (call for call in ran.capture.calls if call.kind == "loop")
    assert abs(loop.info["planned_steps"] - 6_400_000) < 200, "every turn of the loop is one step"
    if reads != "pass":
        # What it reads while it runs, a jitted step does not have: that is said, and nothing is promised.
        assert "eager-step" in {each.rule for each in report.unknown}
        return
    found = next(each for each in report.findings if each.rule == "eager-step")
    # Some hundred operations one by one: jitted, a step takes far less on any machine (a wide margin).
    assert found.cost.saving.mid > 0.3
    assert found.fix is not None
    assert "@jax.jit" in found.fix.title

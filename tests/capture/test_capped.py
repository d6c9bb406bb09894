"""A capped run: enough is seen, then not one further line of the script runs and no file of the user's has changed."""

from __future__ import annotations

import hashlib
import textwrap
from pathlib import Path

import pytest

from fitdoctor import facts
from fitdoctor.facts.training import Training
from tests.conftest import Doctor

HEAD = """
import os, sys
import keras
import numpy as np

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).standard_normal((3200, 8)).astype("float32")
y = x[:, :1]
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
"""


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): "folder" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
    }


def script(doctor: Doctor, text: str) -> str:
    return str(doctor.script(HEAD + textwrap.dedent(text)))


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_the_working_folder_is_byte_identical(doctor: Doctor, backend: str) -> None:
    doctor.script("SIZE = 3\n", "settings.py")
    path = script(
        doctor,
        """
        import settings
        os.makedirs("out", exist_ok=True)
        class Notes(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                with open("notes.txt", "a") as file:
                    file.write(f"{epoch} {logs['loss']}\\n")
        callbacks = [
            keras.callbacks.ModelCheckpoint("out/best.keras", save_best_only=True, monitor="loss"),
            keras.callbacks.ModelCheckpoint("out/{epoch}.weights.h5", save_weights_only=True),
            keras.callbacks.BackupAndRestore("backup"),
            keras.callbacks.CSVLogger("log.csv", append=True),
            keras.callbacks.TensorBoard("logs", histogram_freq=1),
            Notes(),
        ]
        model.fit(x[:64], y[:64], epochs=1, verbose=0)
        model.save("first.keras")
        assert os.path.exists("first.keras")
        assert keras.saving.load_model("first.keras").count_params() == model.count_params()
        try:
            model.fit(x, y, epochs=500, verbose=0, callbacks=callbacks)
        finally:
            open("finally.txt", "w").write("must not run")
            model.save("final.keras")
        print("never printed")
        """,
    )
    (doctor.work / "log.csv").write_text("epoch,loss\n0,1.0\n")
    (doctor.work / "notes.txt").write_text("mine\n")
    (doctor.work / "first.keras").write_bytes(b"an older model")
    before = contents(doctor.work)
    ran = doctor.run("--steps", "350", path, backend=backend)
    assert ran.code == 0, ran.err
    assert contents(doctor.work) == before
    assert "never printed" not in ran.out
    assert ran.capture.meta["exit"]["reason"] == "capped"
    redirected = {Path(each["path"]).name for each in ran.capture.meta["redirected"]}
    assert {"best.keras", "log.csv", "notes.txt", "first.keras"} <= redirected, redirected
    assert ran.capture.account["saving"] > 0


@pytest.mark.framework
def test_the_expensive_fit_leads_and_short_ones_are_kept_apart(doctor: Doctor) -> None:
    path = script(
        doctor,
        """
        model.fit(x[:320], y[:320], epochs=2, verbose=0)
        layers = [keras.layers.Dense(700) for _ in range(4)]
        wide = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(1)])
        wide.compile("adam", "mse")
        wide.fit(x, y, epochs=50, verbose=0)
        """,
    )
    ran = doctor.run("--steps", "150", path, backend="jax")
    assert ran.code == 0, ran.err
    fits = [call for call in ran.capture.calls if call.kind == "fit"]
    assert len(fits) == 2
    training = facts.resolve(ran.capture).get(Training)
    assert training.calls == (fits[1],)
    assert training.planned_steps == 50 * 100
    assert training.site is not None
    assert training.site.line == fits[1].site.line


@pytest.mark.framework
def test_a_short_training_is_stopped_in_time_for_experiments(doctor: Doctor) -> None:
    path = script(doctor, "model.fit(x, y, epochs=2, verbose=0)\n")
    ran = doctor.run("--budget", "12", path, backend="jax", lab=True)
    assert ran.code == 0, ran.err
    assert ran.capture.meta["exit"]["reason"] == "capped"
    assert 140 <= sum(int(steps.count.sum()) for steps in ran.capture.steps.values()) < 200
    assert {"cached batch", "loader alone"} <= {trial.name for trial in ran.capture.trials}


@pytest.mark.framework
def test_a_short_training_that_another_may_follow_is_not_stopped(doctor: Doctor) -> None:
    path = script(
        doctor,
        """
        model.fit(x, y, epochs=1, verbose=0)
        model.compile("sgd", "mse")
        model.fit(x, y, epochs=200_000, verbose=0)
        """,
    )
    ran = doctor.run("--budget", "12", path, backend="jax", lab=True)
    assert ran.code == 0, ran.err
    fits = [call for call in ran.capture.calls if call.kind == "fit"]
    assert len(fits) == 2
    assert facts.resolve(ran.capture).get(Training).calls == (fits[1],)


@pytest.mark.framework
def test_many_short_calls_are_observed_until_the_budget_is_used(doctor: Doctor) -> None:
    path = script(
        doctor,
        """
        for round in range(100_000):
            q = model.predict(x[:32], verbose=0)
            model.fit(x[:96], y[:96], verbose=0)
        """,
    )
    ran = doctor.run("--budget", "6", path, backend="tensorflow")
    assert ran.code == 0, ran.err
    assert ran.capture.meta["cap"]["hit"] == "budget"
    kinds = [call.kind for call in ran.capture.calls]
    assert kinds.count("fit") > 5
    assert kinds.count("predict") > 5
    training = facts.resolve(ran.capture).get(Training)
    assert training.kind == "fit"
    assert training.call_count == kinds.count("fit")
    assert training.fixed_per_call is not None
    assert training.fixed_per_call.mid > training.step_s, "a call of three tiny steps is mostly fixed cost"
    assert "calls of fit" in ran.out or "Short calls of predict" in ran.out, "which of the two costs more is close"


LOOPS = {
    "tape": (
        "tensorflow",
        """
        import tensorflow as tf
        optimizer, loss = keras.optimizers.SGD(), keras.losses.MeanSquaredError()
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
        def train_step(a, b):
            with tf.GradientTape() as tape:
                value = loss(b, model(a, training=True))
            optimizer.apply_gradients(zip(tape.gradient(value, model.trainable_variables), model.trainable_variables))
            return value
        for epoch in range(1000):
            for a, b in data:
                train_step(a, b)
        """,
    ),
    "tf.function": (
        "tensorflow",
        """
        import tensorflow as tf
        optimizer, loss = keras.optimizers.SGD(), keras.losses.MeanSquaredError()
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
        @tf.function
        def train_step(a, b):
            with tf.GradientTape() as tape:
                value = loss(b, model(a, training=True))
            optimizer.apply_gradients(zip(tape.gradient(value, model.trainable_variables), model.trainable_variables))
            return value
        for epoch in range(1000):
            for a, b in data:
                train_step(a, b)
        """,
    ),
    "train_on_batch": (
        "torch",
        """
        for epoch in range(1000):
            for i in range(0, 3200, 32):
                model.train_on_batch(x[i:i + 32], y[i:i + 32])
        """,
    ),
    "jax.jit": (
        "jax",
        """
        import jax
        optimizer = keras.optimizers.SGD()
        optimizer.build(model.trainable_variables)
        def loss(trainable, fixed, a, b):
            out, fixed = model.stateless_call(trainable, fixed, a, training=True)
            return ((out - b) ** 2).mean(), fixed
        gradient = jax.value_and_grad(loss, has_aux=True)
        @jax.jit
        def train_step(state, a, b):
            trainable, fixed, slots = state
            (value, fixed), grads = gradient(trainable, fixed, a, b)
            trainable, slots = optimizer.stateless_apply(slots, grads, trainable)
            return value, (trainable, fixed, slots)
        state = tuple([v.value for v in vs] for vs in (
            model.trainable_variables, model.non_trainable_variables, optimizer.variables))
        for epoch in range(1000):
            for i in range(0, 3200, 32):
                value, state = train_step(state, x[i:i + 32], y[i:i + 32])
        """,
    ),
    "torch.optim": (
        "torch",
        """
        import torch
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        data = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
        for epoch in range(1000):
            for a, b in torch.utils.data.DataLoader(data, batch_size=32):
                optimizer.zero_grad()
                ((model(a) - b) ** 2).mean().backward()
                optimizer.step()
        """,
    ),
    "fitdoctor.steps": (
        "torch",
        """
        import fitdoctor
        weights = np.zeros(8)
        def batches():
            for i in range(0, 3200, 32):
                yield x[i:i + 32], y[i:i + 32, 0]
        for epoch in range(1000):
            for a, b in fitdoctor.steps(batches()):
                weights -= 0.01 * a.T @ (a @ weights - b) / len(b)
        """,
    ),
}


@pytest.mark.framework
@pytest.mark.parametrize("marker", LOOPS)
def test_hand_written_loops_are_recognised(doctor: Doctor, marker: str) -> None:
    backend, text = LOOPS[marker]
    ran = doctor.run("--steps", "120", script(doctor, text + "print('never')\n"), backend=backend)
    assert ran.code == 0, ran.err
    assert "never" not in ran.out
    call = ran.capture.calls[-1]
    expected = {"tape": "optimizer.apply"}.get(marker, marker)
    assert call.info["marker"] == expected
    assert call.info["compiled"] is (marker in ("tf.function", "jax.jit", "train_on_batch"))
    training = facts.resolve(ran.capture).get(Training)
    assert training.steps >= 100
    # Every one of them says: 1000 times 100 steps.  A step may be counted before or after the line that was asked.
    assert training.planned_steps == pytest.approx(100_000, rel=0.02)
    assert "One step" in ran.out

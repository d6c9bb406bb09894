"""The same script on the other backends, for real."""

from __future__ import annotations

import json

import pytest

from fitdoctor import backends
from fitdoctor.errors import UsageError
from tests.conftest import Doctor

SCRIPT = """
import os

CHOICE

import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).standard_normal((4096, 32)).astype("float32")
model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=32, epochs=100, verbose=0)
print("the end")
"""


def run(doctor: Doctor, choice: str) -> tuple[dict[str, dict[str, object]], dict[str, object]]:
    script = doctor.script(SCRIPT.replace("CHOICE", choice))
    ran = doctor.run("--backends", "--steps", "1500", "--budget", "8", "--json", "report.json", str(script))
    assert ran.code == 0, ran.err
    report = json.loads((doctor.work / "report.json").read_text())
    return {each["backend"]: each for each in ran.capture.meta["backends"]}, report


@pytest.mark.framework
@pytest.mark.slow
def test_every_backend_is_run_in_turns_and_the_losses_are_compared(doctor: Doctor) -> None:
    found, report = run(doctor, 'os.environ.setdefault("KERAS_BACKEND", "torch")')
    assert set(found) == {"tensorflow", "jax", "torch"}
    assert not any("why" in each for each in found.values()), found
    losses = [each["rounds"][0]["learning"]["loss"] for each in found.values()]
    assert max(losses) < 2 * min(losses), "the same model on the same data, from other random weights"
    # A step of such a net took 0.1 ms on JAX and 1 ms on torch: an order of magnitude, on any machine.  Of few steps
    # the first ones, which wait for memory, would be most of the time.
    findings = {each["rule"]: each for each in report["findings"]}
    assert "slow-backend" in findings
    assert findings["slow-backend"]["evidence"]["backend"] in ("jax", "tensorflow")
    assert findings["slow-backend"]["fix"]["safety"] == "may change"


@pytest.mark.framework
@pytest.mark.slow
def test_a_script_that_chooses_its_backend_is_not_compared(doctor: Doctor) -> None:
    found, report = run(doctor, 'os.environ["KERAS_BACKEND"] = "jax"')
    assert "chooses its backend itself" in found["torch"]["why"]
    unknown = {each["rule"]: each["reason"] for each in report["unknown"]}
    assert "chooses its backend itself" in unknown["slow-backend"]


def test_it_needs_a_run_that_may_be_started_again(doctor: Doctor) -> None:
    import fitdoctor

    script = doctor.script("print('never run')")
    assert doctor.run("--backends", "--whole", str(script)).code == 2
    with pytest.raises(UsageError, match="not whole"):
        fitdoctor.run(script, whole=True, backends=True)


def test_what_is_installed_is_known_without_importing_it() -> None:
    import sys

    before = set(sys.modules)
    assert set(backends.installed()) <= {"tensorflow", "jax", "torch"}
    assert not (set(sys.modules) - before) & {"tensorflow", "jax", "torch"}

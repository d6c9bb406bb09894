"""What the framework that trains says of itself, in real runs, and what is made of it beside a stand-in driver."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fitdoctor.diagnosis import diagnose
from fitdoctor.facts import resolve
from fitdoctor.facts.device_use import DeviceUse
from fitdoctor.model import Passed, Suspicion
from fitdoctor.probes import recurrent, stack
from tests.conftest import Doctor

SCRIPT = """
import keras
import numpy as np

model = keras.Sequential(
    [
        keras.Input((6, 4)),
        keras.layers.Bidirectional(keras.layers.LSTM(4, recurrent_dropout=0.2, return_sequences=True)),
        keras.layers.GRU(4, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile("sgd", "mse")
model.fit(np.ones((64, 6, 4), "float32"), np.ones((64, 1), "float32"), batch_size=8, epochs=30, verbose=0)
"""


SECONDS = """
import time

import keras
import numpy as np


class Enough(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = time.perf_counter() > end


model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64), keras.layers.Dense(1)])
model.compile("sgd", "mse")
end = time.perf_counter() + 5
model.fit(np.ones((640, 64), "float32"), np.ones((640, 1), "float32"), epochs=10_000, verbose=0, callbacks=[Enough()])
"""

OTHERS = {
    "tensorflow": {"LSTM": (False, []), "GRU": (False, [])},
    "jax": {"LSTM": (False, []), "GRU": (True, [])},
    "torch": {"LSTM": (True, ["recurrent_dropout=0.2"]), "GRU": (True, [])},
}
"""Whether a CPU has another implementation, and what stands in its way: another activation does not."""


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_devices_threads_and_recurrent_layers(doctor: Doctor, backend: str) -> None:
    capture = doctor.run("--steps", "10", str(doctor.script(SCRIPT)), backend=backend).capture
    seen = capture.meta["stack"]
    assert (seen["backend"], seen["gpus"]) == (backend, 0)
    assert ("intra_threads" in seen) == (backend != "jax")
    info = capture.calls[0].info
    assert info["weights_on"] == ["cpu"]
    described = {each["kind"]: (each["other"], each["off"]) for each in info["recurrent"]}
    assert len(info["recurrent"]) == 3
    assert described == OTHERS[backend]
    assert not [gap for gap in capture.gaps if "sees of the machine" in gap.what]
    assert "device_memory" not in capture.meta


@pytest.mark.framework
def test_a_gpu_of_the_driver_that_torch_does_not_see(doctor: Doctor, driver: Path) -> None:
    """The stand-in driver offers two GPUs; the installed PyTorch computes on the CPU."""
    ran = doctor.run("--whole", str(doctor.script(SECONDS)), backend="torch", LD_LIBRARY_PATH=str(driver), FAKE_NVML="")
    assert ran.code == 0, ran.err
    report = diagnose(ran.capture)
    (found,) = [each for each in report.suspicions if each.rule == "hidden-gpu"]
    assert "torch" in found.why
    assert "sees 0 of 2 GPUs" in found.why
    assert "pip install torch==" in found.why
    assert str(found.site).endswith("train.py:16")
    beside = {each.rule for each in report.not_applicable}
    assert {"idle-gpu", "spare-memory", "mismatched-instance"} <= beside
    assert "Suspected" in ran.out
    assert "hidden-gpu" in ran.out
    looks = [sample.values["gpus"] for sample in ran.capture.host if "gpus" in sample.values]
    assert looks[0][0]["throttle"] == ["power cap", "heat (hardware)"]
    used = resolve(ran.capture).get(DeviceUse)
    assert (used.name, used.celsius) == ("Fake A10", 83.0)
    assert used.busy is not None
    assert used.busy.mid == pytest.approx(0.37)


@pytest.mark.parametrize(
    ("backend", "modules", "expected"),
    [
        (
            "tensorflow",
            {"tensorflow": {"config": {"experimental": {"get_memory_info": lambda name: {"current": 1, "peak": 7}}}}},
            {"peak": 7, "limit": None, "retries": None},
        ),
        (
            "jax",
            {"jax": {"local_devices": lambda: [SimpleNamespace(memory_stats=lambda: None)]}},
            {"peak": None, "limit": None, "retries": None},
        ),
    ],
)
def test_what_an_allocator_does_not_tell_is_none(
    monkeypatch: pytest.MonkeyPatch, backend: str, modules: dict[str, Any], expected: dict[str, Any]
) -> None:
    for name, attributes in modules.items():
        monkeypatch.setitem(sys.modules, name, _namespace(attributes))
    assert stack.memory(backend) == expected


def _namespace(attributes: Any) -> Any:
    if not isinstance(attributes, dict):
        return attributes
    return SimpleNamespace(**{name: _namespace(value) for name, value in attributes.items()})


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        ("/job:localhost/replica:0/task:0/device:GPU:0", ["gpu"]),
        ("/job:localhost/replica:0/task:0/device:CPU:0", ["cpu"]),
        (SimpleNamespace(type="cuda"), ["gpu"]),
    ],
)
def test_where_weights_are(device: Any, kind: list[str]) -> None:
    weights = [SimpleNamespace(value=SimpleNamespace(device=device))]
    assert stack.weights_on(SimpleNamespace(trainable_variables=weights)) == kind


def test_a_model_that_does_not_tell() -> None:
    assert stack.weights_on(SimpleNamespace(trainable_variables=[])) is None
    assert stack.weights_on(SimpleNamespace(trainable_variables=[SimpleNamespace(value=1)])) is None
    assert recurrent.describe(object(), gpu=False) is None


def test_outcomes_of_a_run_without_a_gpu_are_no_suspicions(tmp_path: Path) -> None:
    from tests.captures.build import Run

    report = diagnose(Run().fit().capture(tmp_path))
    assert not [each for each in report.suspicions if isinstance(each, Suspicion)]
    device = {each.rule for each in (*report.passed, *report.not_applicable)}
    assert {"hidden-gpu", "idle-gpu", "throttled-device", "memory-pressure", "stale-stack"} <= device
    assert all(isinstance(each, Passed) for each in report.passed)
    assert json.dumps(report.run)

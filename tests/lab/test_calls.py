"""Short calls: seen in the run, made again by the lab beside what could stand in their place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fitdoctor.diagnosis import diagnose
from fitdoctor.errors import CannotRun
from fitdoctor.lab import calls
from tests.conftest import Doctor

LOOP = """
import keras
import numpy as np

model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
x, y = np.ones((4, 3), "float32"), np.ones((4, 1), "float32")
for step in range(100000):
    y = 0.5 * y + 0.5 * model.predict(x, verbose=0)
    model.train_on_batch(x, y)
"""

STATE = """
import json
import keras
import numpy as np
from fitdoctor.lab import calls
from fitdoctor.lab.snapshot import Snapshot

keras.utils.set_random_seed(1)
layers = [keras.Input((3,)), keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
model = keras.Sequential([*layers, keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
x, y = np.ones((4, 3), "float32"), np.ones((4, 1), "float32")
model.fit(x, y, verbose=0)
before = Snapshot(model)
told = {}
for kind, args in (("predict", (x,)), ("evaluate", (x, y))):
    with calls.prepared(model):
        short = calls.ShortCall(model, kind, args, {})
        for name, function in short.alternatives().items():
            told[name] = [short.agree(function), calls.timed(function)() > 0, calls.timed(short.as_is)() > 0]
print(json.dumps({"told": told, "differs": before.differs()}))
"""


@pytest.mark.framework
def test_predict_in_a_loop_is_found_with_what_would_be_faster(doctor: Doctor) -> None:
    script = doctor.script(LOOP)
    ran = doctor.run("--steps", "12", "--budget", "20", str(script), backend="tensorflow", lab=True)
    assert ran.code == 0, ran.err
    capture = ran.capture
    seen = [call for call in capture.calls if call.kind == "predict"]
    assert len(seen) >= 12
    assert {(call.site.line, call.info["samples"]) for call in seen if call.site} == {(9, 4)}
    assert {trial.name for trial in capture.trials} == {"model(x)", "predict_on_batch"}
    assert {trial.detail["unit"] for trial in capture.trials} == {"ns per call"}
    report = diagnose(capture)
    first = report.findings[0]
    assert first.rule == "predict-in-loop"
    assert first.site is not None
    assert first.site.line == 9
    assert first.cost.saving.low > 0.1
    # Traces inside predict are no warm-up of the loop's steps.
    assert report.run["steps"] >= 12


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_the_model_is_left_as_it_was(doctor: Doctor, backend: str) -> None:
    ran = doctor.plain(str(doctor.script(STATE)), backend=backend)
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert told["differs"] == []
    assert told["told"] == {name: [True, True, True] for name in ("model(x)", "predict_on_batch", "test_on_batch")}


def test_a_call_that_nothing_can_replace_is_not_tried() -> None:
    with pytest.raises(CannotRun, match="called with callbacks"):
        calls.ShortCall(object(), "predict", (1,), {"callbacks": [object()]})
    with pytest.raises(CannotRun, match="called with sample_weight"):
        calls.ShortCall(object(), "evaluate", (1, 2, None, 0, [1.0]), {})


def test_a_block_warms_up_and_then_makes_several_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    made: list[int] = []

    def call() -> Any:
        made.append(1)
        now[0] += 1_000_000_000 if len(made) == 1 else 50_000_000

    monkeypatch.setattr(calls.time, "perf_counter_ns", lambda: now[0])
    block = calls.timed(call)
    assert block() == 50e6
    assert len(made) == 2 + 5
    assert block() == 50e6
    assert len(made) == 2 + 5 + 5

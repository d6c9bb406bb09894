"""A hundred thousand steps: the observed process stays as small as the plain one, and the capture stays small."""

from __future__ import annotations

import pytest

from fitdoctor import facts
from fitdoctor.facts.step_model import StepModel
from fitdoctor.model import Steps
from fitdoctor.probes.rests import SEEN_STEPS, SHORT_STEP_NS
from tests.conftest import Doctor

STEPS = 100_000
SCRIPT = f"""
import resource
import keras
import numpy as np

x = np.ones((4, 2), "float32")
batch = (x, x[:, :1])

def batches():
    while True:
        yield batch

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(batches(), steps_per_epoch={STEPS}, epochs=1, verbose=0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.framework
@pytest.mark.slow
def test_memory_and_file_stay_small(doctor: Doctor) -> None:
    script = doctor.script(SCRIPT)
    plain = doctor.plain(str(script), backend="jax")
    assert plain.code == 0, plain.err
    seen = doctor.run("--whole", "--quiet", str(script), backend="jax")
    assert seen.code == 0, seen.err
    grown_kib = int(seen.out.split()[0]) - int(plain.out.split()[0])
    assert grown_kib < 20 * 1024, f"the observed process was {grown_kib / 1024:.1f} MiB larger"
    assert seen.capture_path.stat().st_size < 50e6
    capture = seen.capture
    assert int(capture.steps[1].count.sum()) == STEPS, "no step is lost"
    assert len(capture.steps[1].step) < 90_000, "rows are joined once there are many"
    assert facts.resolve(capture).get(StepModel).step.mid > 0
    print(f"{grown_kib / 1024:.1f} MiB more memory, capture {seen.capture_path.stat().st_size / 1e6:.1f} MB")


RESTED_SCRIPT = """
import sys
import time

import keras
import numpy as np

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).random((32 * 200, 16), "float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")


class EnoughSeen(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.start = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        if time.monotonic() - self.start > 9 and epoch >= 14:
            self.model.stop_training = True


history = model.fit(x, x[:, :1], batch_size=32, epochs=1000, verbose=0, callbacks=[EnoughSeen()])
print(len(history.epoch))
"""


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_short_steps_rest_and_all_are_counted(doctor: Doctor, backend: str) -> None:
    seen = doctor.run("--whole", "--quiet", str(doctor.script(RESTED_SCRIPT)), backend=backend)
    assert seen.code == 0, seen.err
    steps = seen.capture.steps[1]
    assert int(steps.count.sum()) == 200 * int(seen.out.split()[0]), "no step is lost"
    rested = (steps.flags & Steps.RESTED) != 0
    assert steps.count.sum() > 2 * SEEN_STEPS
    if steps.wall_ns.sum() > SHORT_STEP_NS * steps.count.sum():
        assert steps.count[rested].sum() == 0, "this machine is so busy that the steps are long ones: they never rest"
        return
    assert steps.count[rested].sum() > 0
    # The model of a step is that of all steps, watched or not (a wide margin).
    every = seen.capture.account["steady steps"] / float(steps.count[(steps.flags & Steps.WARMUP) == 0].sum())
    assert facts.resolve(seen.capture).get(StepModel).step.mid == pytest.approx(every, rel=0.3)
    if backend == "jax":
        return  # what a step's launch takes tells nothing: the device computes beside it
    # The rested steps are the same steps: they take about as long as those that were watched in turns with them (a
    # factor of two either way: other tests come and go beside this one).
    watched = (steps.flags == 0) & (steps.count > 0) & (steps.start_ns > steps.start_ns[rested].min())
    mean = [float(steps.wall_ns[which].sum() / steps.count[which].sum()) for which in (rested, watched)]
    assert 0.5 < mean[0] / mean[1] < 2
    assert not seen.capture.gaps or all("failed" not in gap.reason for gap in seen.capture.gaps)

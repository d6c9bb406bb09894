"""A hundred thousand steps: the observed process stays as small as the plain one, and the capture stays small."""

from __future__ import annotations

import pytest

from fitdoctor import facts
from fitdoctor.facts.step_model import StepModel
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

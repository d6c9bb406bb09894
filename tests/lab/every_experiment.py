"""Runs the lab on a small job of this backend and tells whether everything is as it was."""

import json
import random
import sys
import time

import keras
import numpy as np

from fitdoctor.lab import bench, snapshot
from fitdoctor.lab.experiments import half_precision
from fitdoctor.lab.job import AS_IS, Job
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.recorder import Nowhere, Recorder

ORDER = sys.argv[1]
EXACTLY = sys.argv[2:] == ["exactly"]


class Peek(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.seen = np.random.rand() + random.random()


class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if ORDER == "raises":
            raise RuntimeError("a callback that fails in the lab")


keras.utils.set_random_seed(3)
model = keras.Sequential(
    [keras.Input((16,)), keras.layers.Dense(32), keras.layers.Dropout(0.3), keras.layers.BatchNormalization(),
     keras.layers.Dense(1)]
)  # fmt: skip
model.compile("adam", "mse", metrics=["mae"])
x = np.random.default_rng(0).standard_normal((320, 16)).astype("float32")
y = x[:, :1]
model.fit(x, y, batch_size=32, epochs=1, verbose=0, callbacks=[Peek()])


def settings():
    return (
        model.jit_compile, model.steps_per_execution, model.run_eagerly, model.train_function, model._compile_metrics,
        [layer.dtype_policy.name for layer in model._flatten_layers()], [metric.name for metric in model.metrics],
    )  # fmt: skip


own_settings = settings()

recorder = Recorder(Nowhere(), time.perf_counter_ns())
call = ActiveCall(1, "fit", None, None, 0)
call.info.update(
    backend=keras.config.backend(), adapter="arrays", callbacks=["Peek", "Stop"], async_callbacks=False,
    metrics=["mae"], run_eagerly=False, dtype=model.dtype,
)  # fmt: skip
call.steady = 10
recorder.account.totals[15] = 10_000_000
recorder.account.totals[2] = 9_000_000

half_precision.best = lambda backend: "mixed_bfloat16"
if not EXACTLY:
    # About what the lab leaves behind, not about how exactly it measures.
    bench.MOST_PAIRS = bench.FEWEST_PAIRS
    Job.block.__defaults__ = (AS_IS, 0.05)
else:
    bench.MOST_PAIRS = 6
    every = bench.modules
    bench.modules = lambda: [each for each in every() if each.__name__.endswith(("s_off", "batch_size"))]
modules = bench.modules
if ORDER == "backwards":
    bench.modules = lambda: reversed(list(modules()))
    for module in modules():
        module.worth = lambda seen: 1.0

before = Snapshot(model)
if ORDER == "no memory":
    snapshot.free_memory = lambda: before.bytes
arguments = ((x, y), {"batch_size": 32, "epochs": 3, "callbacks": [Peek(), Stop()]})
told = []
start = time.monotonic()
bench.run(recorder, call, model, arguments, 120.0, told.append)
spent = time.monotonic() - start
print(
    json.dumps(
        {
            "differs": before.differs(),
            "settings": [one is other or one == other for one, other in zip(own_settings, settings(), strict=True)],
            "trials": {row[0]: [json.loads(row[2]), json.loads(row[3])] for row in recorder._rows.get("trials", [])},
            "gaps": [[what, reason] for what, reason in recorder._gaps],
            "told": told,
            "spent": spent,
        }
    )
)
# Training goes on as if nothing had been.
job = Job(model, keras.config.backend(), *arguments)
assert job.batch_rows == 32

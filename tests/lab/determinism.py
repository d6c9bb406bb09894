"""Runs the experiment without op determinism on a job that turned it on; tells what it left behind."""

import json
import threading
import time

import keras
import numpy as np
import tensorflow as tf

from fitdoctor.lab import bench
from fitdoctor.lab.experiments import op_determinism
from fitdoctor.lab.job import AS_IS, Job
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes import asked
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.recorder import Nowhere, Recorder

keras.utils.set_random_seed(3)
tf.config.experimental.enable_op_determinism()
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32), keras.layers.Dropout(0.3), keras.layers.Dense(1)])
model.compile("adam", "mse")
x = np.random.default_rng(0).standard_normal((640, 16)).astype("float32")


lock = threading.Lock()
inside = most = 0


def fetch(row):
    global inside, most
    with lock:
        inside += 1
        most = max(most, inside)
    time.sleep(0.002)  # stands for the round trip to a store
    with lock:
        inside -= 1
    return np.sort(row)


def slow(row):
    return tf.numpy_function(fetch, [row], tf.float32)


data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).map(
    lambda a, b: (tf.ensure_shape(slow(a), (16,)), b), num_parallel_calls=2
)
arguments = ((data.batch(32),), {"epochs": 3})
model.fit(*arguments[0], epochs=1, verbose=0)

with_it = most
recorder = Recorder(Nowhere(), time.perf_counter_ns())
call = ActiveCall(1, "fit", None, None, 0)
call.info.update(backend="tensorflow", adapter="tf.data", callbacks=[], epochs=3, **asked.of_model(model))
call.steady = 10
recorder.account.totals[15] = 10_000_000
recorder.account.totals[2] = 9_000_000

# This is about whether it runs and what it leaves behind, not about how exactly it measures.
bench.MOST_PAIRS = bench.FEWEST_PAIRS
Job.block.__defaults__ = (AS_IS, 0.05)
bench.modules = lambda: iter((op_determinism,))

before, function = Snapshot(model), model.train_function
bench.run(recorder, call, model, arguments, 60.0, lambda text: None)
print(
    json.dumps(
        {
            "worth": op_determinism.worth(bench._seen(recorder, call)),
            "differs": before.differs(),
            "function": model.train_function is function,
            "at_once": [with_it, most],
            "on": asked.of_model(model)["deterministic"],
            "trials": [row[0] for row in recorder._rows.get("trials", [])],
            "gaps": [[what, reason] for what, reason in recorder._gaps],
        }
    )
)

"""Trains short epochs with and without the thread that tunes the pipeline; tells what was measured and left behind."""

import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from fitdoctor.lab import bench
from fitdoctor.lab.experiments import without_tuner
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.recorder import Nowhere, Recorder

keras.utils.set_random_seed(3)
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32), keras.layers.Dropout(0.3), keras.layers.Dense(1)])
model.compile("adam", "mse")
x = np.random.default_rng(0).standard_normal((3200, 16)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).map(lambda a, b: (tf.sort(a), b)).shuffle(100).batch(32)
given = {"epochs": 3}
if sys.argv[1:] == ["off"]:
    options = tf.data.Options()
    options.autotune.enabled = False
    data = data.with_options(options)
if sys.argv[1:] == ["endless"]:
    data, given = data.repeat(), {"epochs": 3, "steps_per_epoch": 100}
model.fit(data, verbose=0, **{**given, "epochs": 1})

recorder = Recorder(Nowhere(), time.perf_counter_ns())
call = ActiveCall(1, "fit", None, None, 0)
call.info.update(backend="tensorflow", adapter="tf.data", callbacks=[], epochs=3, steps_per_epoch=100)
call.steady, call.epoch = 10, 1
recorder.account.totals[15] = recorder.account.totals[2] = 20_000_000

# This is about whether it runs and what it leaves behind, not about how exactly it measures.
bench.MOST_PAIRS = bench.FEWEST_PAIRS
bench.modules = lambda: iter((without_tuner,))
bench._seen = lambda recorder, call: bench.Seen(2e6, call.info, {"fetch": 0.1, "between epochs": 0.2})

before, function = Snapshot(model), model.train_function
bench.run(recorder, call, model, ((data,), given), 60.0, lambda text: None)
print(
    json.dumps(
        {
            "differs": before.differs(),
            "function": model.train_function is function,
            "trials": {row[0]: json.loads(row[4]) for row in recorder._rows.get("trials", [])},
            "gaps": [[what, reason] for what, reason in recorder._gaps],
        }
    )
)

"""Runs the experiments about the run as a whole and tells what they found and whether everything is as it was."""

import json
import sys
import time

import keras
import numpy as np

from fitdoctor.lab import bench
from fitdoctor.lab.experiments import dispatch, longer_epochs
from fitdoctor.lab.job import AS_IS, Job
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes import asked
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.recorder import Nowhere, Recorder

KIND = sys.argv[1]

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).standard_normal((160, 8)).astype("float32")
y = x[:, :1]
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dropout(0.3), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(gradient_accumulation_steps=2), "mse", metrics=["mae"])
if KIND == "arrays":
    arguments = ((x, y), {"batch_size": 16, "epochs": 100})
else:
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(160, seed=1).batch(16)
    arguments = ((data.repeat() if KIND == "endless" else data,), {"epochs": 100})
    if KIND == "endless":
        arguments[1]["steps_per_epoch"] = 10
model.fit(*arguments[0], **{**arguments[1], "epochs": 1}, verbose=0)
own = model.train_function, model.history

recorder = Recorder(Nowhere(), time.perf_counter_ns())
call = ActiveCall(1, "fit", None, None, 0)
call.info.update(
    backend=keras.config.backend(), adapter="arrays" if KIND == "arrays" else "tf.data", callbacks=[], epochs=100,
    steps_per_epoch=10, verbose="0", async_possible=True, async_callbacks=True, **asked.of_model(model),
)  # fmt: skip
call.steady, call.epoch = 10, 1
# Ten steps of a millisecond, and as long between epochs.
recorder.account.totals[15] = recorder.account.totals[10] = 10_000_000
recorder.account.totals[2] = 9_000_000

# About whether they run and what they leave behind, not about how exactly they measure.
bench.MOST_PAIRS = bench.FEWEST_PAIRS
Job.block.__defaults__ = (AS_IS, 0.05)
bench.modules = lambda: iter((longer_epochs, dispatch))

before = Snapshot(model)
bench.run(recorder, call, model, arguments, 60.0, lambda text: None)
print(
    json.dumps(
        {
            "differs": before.differs(),
            "kept": [one is other for one, other in zip(own, (model.train_function, model.history), strict=True)],
            "accumulation": call.info["accumulation"],
            "trials": {row[0]: [json.loads(row[2]), json.loads(row[3])] for row in recorder._rows.get("trials", [])},
            "gaps": [[what, reason] for what, reason in recorder._gaps],
        }
    )
)

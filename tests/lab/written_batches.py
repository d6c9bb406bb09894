"""Tries batches that were written beforehand, and tells what was seen and whether everything is as it was."""

import json
import os
import sys
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

from fitdoctor.lab import bench, rehearsal
from fitdoctor.lab.experiments import rehearsed, written_out
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes import account as acc
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.dataset_tf import describe_dataset
from fitdoctor.probes.recorder import Nowhere, Recorder

KIND, WHOLE = sys.argv[1], sys.argv[2] == "epochs"
x = np.random.default_rng(0).standard_normal((600, 64)).astype("float32")


def work(row):
    table = row[:, None] * row[None, :]
    for _ in range(40):
        table = tf.tanh(table @ table)
    return {"row": row + 1e-6 * table[0]}, row[:1]


def waits(row):
    time.sleep(0.002)  # stands for the round trip to a remote store
    return row


data = tf.data.Dataset.from_tensor_slices(x)
if KIND == "waits":
    data = data.map(lambda row: tf.ensure_shape(tf.numpy_function(waits, [row], tf.float32), (64,)))
    data = data.map(lambda row: ({"row": row}, row[:1])).batch(16)
else:
    written_out.BUSY = 0.0  # other tests may have the other core
    data = data.map(work, num_parallel_calls=8).batch(16)

keras.utils.set_random_seed(3)
inputs = keras.Input((64,), name="row")
hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(8)(inputs))
model = keras.Model({"row": inputs}, keras.layers.Dense(1)(hidden))
model.compile("adam", "mse")
model.fit(data, epochs=1, verbose=0)

recorder = Recorder(Nowhere(), time.perf_counter_ns())
call = ActiveCall(1, "fit", None, None, 0)
call.info.update(backend=keras.config.backend(), adapter="tf.data", epochs=3, **describe_dataset(data))
call.steady = 10
recorder.account.totals[acc.STEADY] = 10_000_000
recorder.account.totals[acc.STEP_BUCKETS[0]] = 9_000_000
bench.MOST_PAIRS = bench.FEWEST_PAIRS
bench.modules = lambda: iter((rehearsed, written_out))
rehearsal.EPOCH_SECONDS = 60.0 if WHOLE else 0.0
temporary = set(os.listdir(tempfile.gettempdir()))
before = Snapshot(model)
bench.run(recorder, call, model, ((data,), {"epochs": 3}), 60.0, lambda text: None)
print(
    json.dumps(
        {
            "differs": before.differs(),
            "left": [each for each in set(os.listdir(tempfile.gettempdir())) - temporary if "fitdoctor" in each],
            "trials": {
                row[0]: {**json.loads(row[4]), "ratio": sum(json.loads(row[3])) / sum(json.loads(row[2]))}
                for row in recorder._rows.get("trials", [])
            },
            "gaps": [[what, reason] for what, reason in recorder._gaps],
        }
    )
)

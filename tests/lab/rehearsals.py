"""Rehearses a training on data that comes faster, and tells what was seen and whether everything is as it was."""

import json
import sys
import time
import types

import keras
import numpy as np

from fitdoctor.lab import bench, rehearsal
from fitdoctor.lab.experiments import rehearsed
from fitdoctor.lab.job import Job, Offer
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes import account as acc
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.recorder import Nowhere, Recorder

KIND, WHOLE = sys.argv[1], sys.argv[2] == "epochs"
x = np.random.default_rng(0).standard_normal((160, 64)).astype("float32")
y = x[:, :1]


class Rows(keras.utils.PyDataset):
    """Makes its batches with work that another dataset saves."""

    def __init__(self, work):
        super().__init__()
        self.work, self.rng = work, np.random.default_rng(4)

    def __len__(self):
        return 10

    def __getitem__(self, index):
        rows = slice(16 * index, 16 * index + 16)
        for _ in range(self.work):
            np.linalg.svd(x[:128])
        return x[rows] + self.rng.standard_normal(dtype="float32"), y[rows]


def made(work):
    if KIND == "dataset":
        return Rows(work)
    import tensorflow as tf

    def draw(row, target):
        for _ in range(work):
            row = row + 0.0 * tf.linalg.svd(tf.random.stateless_normal((96, 96), (1, 2)), compute_uv=False)[0]
        return row, target

    return tf.data.Dataset.from_tensor_slices((x, y)).map(draw).batch(16)


keras.utils.set_random_seed(3)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(8), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
data = made(20 if KIND == "dataset" else 3)
model.fit(data, epochs=1, verbose=0)
function = model.train_function

recorder = Recorder(Nowhere(), time.perf_counter_ns())
call = ActiveCall(1, "fit", None, None, 0)
adapter = "PyDataset" if KIND == "dataset" else "tf.data"
call.info.update(backend=keras.config.backend(), adapter=adapter, epochs=3, workers=1)
call.steady = 10
recorder.account.totals[acc.STEADY] = 10_000_000
recorder.account.totals[acc.STEP_BUCKETS[0]] = 9_000_000


def comparisons(job: Job, seen: bench.Seen):
    for name, work in (("nothing left out", None), ("most left out", 1), ("all left out", 0)):
        if work is not None:
            job.offers.append(Offer(name, "work", lambda whole, work=work: {"x": made(work)}))
        share = {None: 1.0, 1: 0.4, 0: 0.2}[work]
        yield bench.Comparison(name, lambda share=share: share, lambda: 1.0)


offering = types.SimpleNamespace(
    NAME="offers", TRAINS=False, OFFERS=True, worth=lambda seen: 1.0, comparisons=comparisons
)
bench.MOST_PAIRS = bench.FEWEST_PAIRS
bench.modules = lambda: iter((rehearsed, offering))
rehearsal.EPOCH_SECONDS = 60.0 if WHOLE else 0.0
before = Snapshot(model)
own = str(data.rng.bit_generator.state) if KIND == "dataset" else ""
bench.run(recorder, call, model, ((data,), {"epochs": 3}), 60.0, lambda text: None)
rows = {row[0]: row for row in recorder._rows.get("trials", [])}
print(
    json.dumps(
        {
            "differs": before.differs(),
            "drawn": own != (str(data.rng.bit_generator.state) if KIND == "dataset" else ""),
            "function": model.train_function is function,
            "trials": {
                name: {**json.loads(row[4]), "ratio": sum(json.loads(row[3])) / sum(json.loads(row[2]))}
                for name, row in rows.items()
            },
            "gaps": [[what, reason] for what, reason in recorder._gaps],
        }
    )
)

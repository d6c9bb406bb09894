"""Runs the experiments that need a certain kind of job (double precision, one-hot targets, a tf.data pipeline)."""

import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from fitdoctor.lab import bench
from fitdoctor.lab.experiments import float32, generator_alone, prefixes, rewritten, sparse_targets, workers
from fitdoctor.lab.job import AS_IS, Job
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.dataset_tf import describe_dataset
from fitdoctor.probes.input_tf_generators import GeneratorProbe
from fitdoctor.probes.install import ImportWatch, Patches
from fitdoctor.probes.recorder import Nowhere, Recorder

KIND = sys.argv[1]
ADAPTERS = {"arrays": "arrays", "loader": "DataLoader"}

recorder = Recorder(Nowhere(), time.perf_counter_ns())
watch = ImportWatch(recorder)
watch.install()
GeneratorProbe(recorder, Patches(recorder)).attach(watch)

keras.utils.set_random_seed(3)
keras.config.set_floatx("float64")
model = keras.Sequential(
    [keras.Input((16,)), keras.layers.Dense(32), keras.layers.Dropout(0.3), keras.layers.Dense(8, "softmax")]
)
model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
x = np.random.default_rng(0).standard_normal((640, 16))
y = keras.utils.to_categorical(np.arange(640) % 8, 8)


def samples():
    for place in range(len(x)):
        yield x[place], y[place]


if KIND == "arrays":
    arguments = ((x, y), {"batch_size": 32, "epochs": 3})
elif KIND == "loader":
    import torch

    pairs = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    order = torch.Generator().manual_seed(1)
    arguments = ((torch.utils.data.DataLoader(pairs, batch_size=32, shuffle=True, generator=order),), {"epochs": 3})
elif KIND == "generator":
    spec = (tf.TensorSpec((16,), tf.float64), tf.TensorSpec((8,), tf.float64))
    data = tf.data.Dataset.from_generator(samples, output_signature=spec).batch(32)
    arguments = ((data,), {"epochs": 3})
else:
    data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda a, b: (tf.sort(a), b))
    data = data.shuffle(640).map(lambda a, b: (a + tf.random.normal((16,), dtype=tf.float64), b))
    data = data.batch(32).map(lambda a, b: (a * 2, b)).prefetch(1)
    arguments = ((data,), {"epochs": 3})
model.fit(*arguments[0], epochs=1, verbose=0, **({"batch_size": 32} if KIND == "arrays" else {}))
if KIND == "loader":
    drawn = order.get_state()
settings = model.train_function, model._compile_metrics, model._compile_loss, keras.config.floatx()

call = ActiveCall(1, "fit", None, None, 0)
call.info.update(
    backend=keras.config.backend(), adapter=ADAPTERS.get(KIND, "tf.data"), callbacks=[], epochs=3,
    metrics=["accuracy"], run_eagerly=False, loss=model.loss, dtype=str(model.dtype),
    **({} if KIND in ADAPTERS else describe_dataset(data)),
)  # fmt: skip
call.steady = 10
recorder.account.totals[15] = 10_000_000
recorder.account.totals[2] = 9_000_000

# This is about whether they run and what they leave behind, not about how exactly they measure.
bench.MOST_PAIRS = bench.FEWEST_PAIRS
Job.block.__defaults__ = (AS_IS, 0.05)
chosen = (workers,) if KIND == "loader" else (float32, generator_alone, prefixes, rewritten, sparse_targets)
bench.modules = lambda: iter(chosen)

before = Snapshot(model)
bench.run(recorder, call, model, arguments, 120.0, lambda text: None)
reordered = ["the loader's order"] if KIND == "loader" and (drawn != order.get_state()).any() else []
after = model.train_function, model._compile_metrics, model._compile_loss, keras.config.floatx()
print(
    json.dumps(
        {
            "differs": before.differs()
            + (["order"] if KIND == "loader" and (drawn != order.get_state()).any() else []),
            "settings": [one is other or one == other for one, other in zip(settings, after, strict=True)],
            "trials": {row[0]: json.loads(row[4]) for row in recorder._rows.get("trials", [])},
            "gaps": [[what, reason] for what, reason in recorder._gaps],
        }
    )
)

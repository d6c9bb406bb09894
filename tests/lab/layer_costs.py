"""Times the layers of a Sequential, a functional and a subclassed model of this backend, and tells what is left."""

import json
import sys
import time

import keras
import numpy as np
from keras import layers, ops

from fitdoctor.lab import bench, calls
from fitdoctor.lab.experiments import layers as experiment
from fitdoctor.lab.job import AS_IS, Job
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.model_layers import outline
from fitdoctor.probes.recorder import Nowhere, Recorder

BACKEND = keras.config.backend()
RAISES = sys.argv[1:] == ["raises"]
ROWS = 32
rng = np.random.default_rng(0)


def squash(values):
    for _ in range(400):
        values = np.sort(np.tanh(values), axis=-1)
    return values.astype("float32")


class Squash(layers.Layer):
    def call(self, x):
        if BACKEND == "tensorflow":
            import tensorflow as tf

            return tf.ensure_shape(tf.numpy_function(squash, [x], tf.float32), x.shape)
        if BACKEND == "jax":
            import jax

            return jax.pure_callback(squash, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        import torch

        values = x.detach().cpu().numpy()
        return torch.from_numpy(squash(values))


class Block(layers.Layer):
    """A layer that holds others, and calculates beside them."""

    def __init__(self, units):
        super().__init__()
        self.wide = layers.Dense(4 * units, activation="relu")
        self.narrow = layers.Dense(units)
        self.norm = layers.LayerNormalization()

    def call(self, x):
        if RAISES and not isinstance(x, keras.KerasTensor) and getattr(self, "armed", False):
            raise RuntimeError("a layer that fails in the lab")
        return self.norm(x + self.narrow(self.wide(x)))


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.squash = Squash(name="squash")
        self.blocks = [Block(256) for _ in range(2)]
        self.drop = layers.Dropout(0.2)
        self.head = layers.Dense(1)

    def call(self, x, training=False):
        x = self.squash(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.drop(x, training=training))


def pictures():
    model = keras.Sequential(
        [
            keras.Input((20, 20, 3)),
            layers.Conv2D(16, 3, activation="gelu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(64, activation="relu"),
            layers.Dense(1),
        ]
    )
    return model, rng.standard_normal((4 * ROWS, 20, 20, 3)).astype("float32")


def words():
    given = keras.Input((12,), dtype="int32")
    table = layers.Embedding(20_000, 32)(given)
    read = layers.LSTM(32)(table)
    both = layers.Concatenate()([read, layers.GlobalAveragePooling1D()(table)])
    model = keras.Model(given, layers.Dense(1)(layers.Dense(64, activation="relu")(both)))
    return model, rng.integers(0, 20_000, (4 * ROWS, 12)).astype("int32")


def own():
    return Own(), rng.standard_normal((4 * ROWS, 256)).astype("float32")


def run(make):
    model, x = make()
    y = rng.standard_normal((len(x), 1)).astype("float32")
    model(ops.convert_to_tensor(x[:2]))
    model.compile("adam", "mse")
    model.fit(x, y, batch_size=ROWS, epochs=1, verbose=0)
    if RAISES:
        model.blocks[0].armed = True
    recorder = Recorder(Nowhere(), time.perf_counter_ns())
    call = ActiveCall(1, "fit", None, None, 0)
    call.info.update(backend=BACKEND, adapter="arrays", run_eagerly=False, layers=outline(model))
    call.steady = 1
    recorder.account.totals[15] = recorder.account.totals[2] = 10_000_000
    before = Snapshot(model)
    start = time.monotonic()
    bench.run(recorder, call, model, ((x, y), {"batch_size": ROWS, "epochs": 3}), 120.0, lambda text: None)
    return {
        "spent": time.monotonic() - start,
        "differs": before.differs(),
        "trials": {
            row[0]: {"baseline": json.loads(row[2]), "changed": json.loads(row[3]), "detail": json.loads(row[4])}
            for row in recorder._rows.get("trials", [])
        },
        "gaps": [[what, reason] for what, reason in recorder._gaps],
    }


# About what is measured and what is left behind, not about how exactly.
bench.MOST_PAIRS = bench.FEWEST_PAIRS = 2
calls.BLOCK_NS = 1e7
experiment.BLOCK_SECONDS = 0.05
Job.block.__defaults__ = (AS_IS, 0.05)
bench.modules = lambda: iter((experiment,))
makes = (own,) if RAISES else (pictures, words, own)
print(json.dumps({make.__name__: run(make) for make in makes}))

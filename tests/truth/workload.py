"""A training whose input and compute cost are known by construction; prints the truth it measured itself as JSON.

usage: workload.py ADAPTER read|cpu STEPS

`read`: every batch is one blocking read from a store (a process of its own that answers one request at a time).
`cpu`: every batch is real computation in pure Python.

The truth is taken in the same run.  The loader notes when a batch is ready, and a callback notes when the step on it is
done and its loss is a number.  The input is made slower than the step, so a step begins when its batch is ready: from
there to its end is what the step itself takes, and the rest of the time between two steps is waiting for input.  Arrays
on JAX and torch are sliced in Python, so a slice can be such a read; TensorFlow copies them into its own memory, and
there the input is nearly free by construction: the step is repeated on one batch, and the input is the difference.

A blocking read leaves the cores alone, so this holds whether or not the input works ahead.  Computation takes a core
from the step, and two cores may be two halves of one: what the step would take alone is then not a truth about this
run.  So `cpu` input is made to take turns with the step (tf.data: no prefetch; a callback that is not `async_safe`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

ADAPTER, KIND, STEPS = sys.argv[1], sys.argv[2], int(sys.argv[3])
BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")
ROUND_TRIP = 0.070
BATCH, WIDTH = 128, 768
# One core computes, one is free for the input: so that what one of them costs does not depend on the other.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["OMP_NUM_THREADS"] = "1"

import keras  # noqa: E402
import numpy as np  # noqa: E402

if BACKEND == "tensorflow":
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
elif BACKEND == "torch":
    import torch

    torch.set_num_threads(1)

STORE = """
import sys, time
while True:
    asked = sys.stdin.buffer.read(1)
    if not asked:
        break
    time.sleep(float(sys.argv[1]))  # stands for the round trip to a remote store
    sys.stdout.buffer.write(asked)
    sys.stdout.buffer.flush()
"""
store = subprocess.Popen(
    [sys.executable, "-c", STORE, str(ROUND_TRIP)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
)
one_at_a_time = threading.Lock()
rng = np.random.default_rng(0)
IN_MEMORY = ADAPTER == "arrays" and BACKEND == "tensorflow"
COLUMNS = WIDTH
X = rng.standard_normal((BATCH, COLUMNS), dtype="float32")
Y = rng.standard_normal((BATCH, 1), dtype="float32")


def read() -> None:
    with one_at_a_time:
        store.stdin.write(b"x")
        store.stdout.read(1)


def compute() -> None:
    total = 0
    for i in range(800_000):
        total += i


ready: list[float] = []


def load(_: object = None) -> tuple[np.ndarray, np.ndarray]:
    if KIND == "read":
        read()
    else:
        compute()
    ready.append(time.perf_counter())
    return X, Y


class Stored(np.ndarray):
    """An array whose rows lie in the store: taking some is a read."""

    def __getitem__(self, rows):
        found = super().__getitem__(rows).view(np.ndarray)
        load()
        return found


def data():
    if ADAPTER == "arrays":
        x = np.tile(X, (STEPS, 1))
        return {"x": x if IN_MEMORY else x.view(Stored), "y": np.tile(Y, (STEPS, 1)), "batch_size": BATCH}
    if ADAPTER == "tf.data":
        import tensorflow as tf

        def batch(i):
            x, y = tf.numpy_function(load, [i], [tf.float32, tf.float32])
            return tf.ensure_shape(x, X.shape), tf.ensure_shape(y, Y.shape)

        dataset = tf.data.Dataset.range(STEPS).map(batch)
        if KIND == "cpu":
            options = tf.data.Options()
            options.autotune.enabled = False
            options.experimental_optimization.inject_prefetch = False
            dataset = dataset.with_options(options)
        return {"x": dataset}
    if ADAPTER == "PyDataset":

        class Batches(keras.utils.PyDataset):
            def __len__(self):
                return STEPS

            def __getitem__(self, index):
                return load()

        return {"x": Batches()}
    if ADAPTER == "generator":
        return {"x": (load() for _ in range(STEPS + 4)), "steps_per_epoch": STEPS}
    if ADAPTER == "DataLoader":
        import torch

        class Batches(torch.utils.data.Dataset):
            def __len__(self):
                return STEPS

            def __getitem__(self, index):
                x, y = load()
                return torch.from_numpy(x), torch.from_numpy(y)

        return {"x": torch.utils.data.DataLoader(Batches(), batch_size=None)}
    if ADAPTER == "Grain":
        import grain

        ds = grain.MapDataset.range(STEPS).map(load)
        return {"x": ds.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=2))}
    raise SystemExit(f"unknown adapter {ADAPTER}")


def in_memory(steps: int):
    import tensorflow as tf

    return tf.data.Dataset.from_tensors((X, Y)).repeat(steps).prefetch(2)


class Stamps(keras.callbacks.Callback):
    # Safe: changes nothing in how Keras dispatches.  Not safe: makes Keras wait for each step's result.
    async_safe = KIND == "read"

    def __init__(self):
        super().__init__()
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter())

    def per_step(self, skip: int) -> float:
        times = self.times[skip:]
        return (times[-1] - times[0]) / (len(times) - 1)


keras.utils.set_random_seed(1)
inputs = keras.Input((COLUMNS,))
x = inputs[:, :WIDTH]
for _ in range(3):
    x = keras.layers.Dense(WIDTH, activation="relu")(x)
model = keras.Model(inputs, keras.layers.Dense(1)(x))
model.compile("sgd", "mse")

SKIP = 4
stamps = Stamps()
model.fit(**data(), callbacks=[stamps], verbose=0)
if IN_MEMORY:
    alone = Stamps()
    n = max(40, STEPS // 2)
    model.fit(in_memory(n), steps_per_epoch=n - 2, callbacks=[alone], verbose=0)
    rest = alone.per_step(10)
else:
    taken = [done - max(t for t in ready if t <= done) for done in stamps.times[SKIP:]]
    rest = sum(taken) / len(taken)
store.stdin.close()
print(json.dumps({"step": stamps.per_step(SKIP), "rest": rest}))

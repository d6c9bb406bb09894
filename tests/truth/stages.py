"""A tf.data pipeline whose stages cost what was measured before the training; prints that truth as JSON.

The computing stages are timed as plain functions, called one after the other inside one graph; the reading stage is
timed as a Python function.  Nothing runs beside anything else (no parallel map, no prefetch), since two cores may be
two halves of one: what a stage costs beside another is not what it costs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import keras
import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
ROUND_TRIP = 0.004
BATCH, STEPS, WIDTH = 8, 60, 64
CALLS = 300
WEIGHTS = tf.constant(np.linalg.qr(np.random.default_rng(0).normal(size=(WIDTH, WIDTH)))[0].astype("float32"))

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


def read(number: np.int64) -> np.ndarray:
    store.stdin.write(b"x")
    store.stdout.read(1)
    return np.full((WIDTH, WIDTH), number, "float32")


def picture(number: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.numpy_function(read, [number], tf.float32), (WIDTH, WIDTH))


def turned(x: tf.Tensor, times: int) -> tf.Tensor:
    for _ in range(times):
        x = tf.matmul(x, WEIGHTS)
    return x


def short(x: tf.Tensor) -> tf.Tensor:
    return turned(x, 24)


def long(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    x = turned(x, 96)
    return x[0], x[1, :1]


@tf.function
def called(which: str) -> tf.Tensor:
    """Call one of the functions many times, each on what the one before gave."""
    x = tf.ones((WIDTH, WIDTH))
    for _ in tf.range(CALLS):
        x = short(x) if which == "short" else tf.concat([long(x)[0][None], x[1:]], 0)
    return x


def cpu_of(which: str) -> float:
    """Return CPU seconds per call."""
    called(which)
    took = []
    for _ in range(5):
        start = time.process_time()
        called(which)
        took.append((time.process_time() - start) / CALLS)
    return float(np.median(took))


def wall_of_reading() -> float:
    """Return seconds per read."""
    took = []
    for number in range(100):
        start = time.perf_counter()
        read(np.int64(number))
        took.append(time.perf_counter() - start)
    return float(np.median(took))


print(json.dumps({"short": cpu_of("short"), "long": cpu_of("long"), "read": wall_of_reading()}), flush=True)
options = tf.data.Options()
options.experimental_optimization.map_parallelization = False
options.experimental_optimization.map_and_batch_fusion = False
options.experimental_optimization.inject_prefetch = False
data = tf.data.Dataset.range(BATCH * STEPS)
data = data.map(picture)
data = data.map(short)
data = data.map(long)
data = data.batch(BATCH).with_options(options)

model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=0)

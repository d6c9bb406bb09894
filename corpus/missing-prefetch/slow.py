"""Predict tomorrow's river level from a week of readings that are kept in a bucket, block by block."""

import os
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

BLOCKS = 96
ROWS = 256
GAUGES = 12
HOURS = 168
EPOCHS = 6


def write_blocks(folder, seed=0):
    """Write made-up readings, a block of weeks per file: rain moves down the river with a delay."""
    rng = np.random.default_rng(seed)
    for number in range(BLOCKS):
        rain = rng.gamma(0.3, 2.0, size=(ROWS, HOURS + 24)).astype("float32")
        flow = np.stack([np.roll(rain, 3 * gauge, axis=1) / (1 + gauge) for gauge in range(GAUGES)], axis=2)
        level = flow[:, HOURS:, -1].mean(axis=1, keepdims=True)
        np.savez(os.path.join(folder, f"block-{number:03d}.npz"), week=flow[:, :HOURS], tomorrow=level)


def make_model():
    model = keras.Sequential(
        [
            keras.Input((HOURS, GAUGES)),
            keras.layers.Flatten(),
            keras.layers.Dense(1024, activation="relu"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    return model


def main():
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        write_blocks(folder)

        def fetch(number):
            time.sleep(0.015)  # stands for the round trip to the object store
            with np.load(os.path.join(folder, f"block-{number:03d}.npz")) as block:
                return block["week"], block["tomorrow"]

        def read(number):
            week, tomorrow = tf.numpy_function(fetch, [number], [tf.float32, tf.float32])
            return tf.ensure_shape(week, (ROWS, HOURS, GAUGES)), tf.ensure_shape(tomorrow, (ROWS, 1))

        # The tuner once took all the memory of the shared server.
        options = tf.data.Options()
        options.autotune.enabled = False
        data = tf.data.Dataset.range(BLOCKS).shuffle(BLOCKS, seed=1).map(read)
        data = data.with_options(options)

        model = make_model()
        start = time.perf_counter()
        model.fit(data, epochs=EPOCHS, verbose=2)
        print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

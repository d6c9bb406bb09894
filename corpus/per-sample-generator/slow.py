"""Forecast the load of a power grid from the day before."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
import tensorflow as tf

WINDOW = 96
CHANNELS = 8
BATCH = 64
EPOCHS = 10


def make_load(count=16384, seed=0):
    """Return quarter-hourly load of some made-up districts: days, weeks and weather."""
    rng = np.random.default_rng(seed)
    hour = np.arange(count)[:, None] / 4
    phase = rng.uniform(0, 24, size=CHANNELS)
    day = np.sin(2 * np.pi * (hour + phase) / 24)
    week = 0.4 * np.sin(2 * np.pi * (hour + phase) / 168)
    weather = np.cumsum(rng.normal(0, 0.02, size=(count, CHANNELS)), axis=0)
    return (day + week + weather - weather.mean(axis=0)).astype("float32")


def windows(series):
    """Yield the last day and what comes next, for every moment."""
    for start in range(len(series) - WINDOW):
        yield series[start : start + WINDOW], series[start + WINDOW]


def make_model():
    model = keras.Sequential(
        [
            keras.Input((WINDOW, CHANNELS)),
            keras.layers.Conv1D(16, 5, activation="relu"),
            keras.layers.Conv1D(16, 5, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(CHANNELS),
        ]
    )
    model.compile("adam", "mse")
    return model


def main():
    keras.utils.set_random_seed(1)
    series = make_load()
    data = tf.data.Dataset.from_generator(
        lambda: windows(series),
        output_signature=(
            tf.TensorSpec((WINDOW, CHANNELS), tf.float32),
            tf.TensorSpec((CHANNELS,), tf.float32),
        ),
    )
    data = data.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    model = make_model()
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

"""Forecast how full a car park will be; the year before serves to check it."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

HOURS = 96
BATCH = 64
EPOCHS = 60


def make_hours(count, seed):
    """Return four days of made-up occupancy, and what it was an hour later."""
    rng = np.random.default_rng(seed)
    start = rng.integers(168, size=(count, 1))
    hour = start + np.arange(HOURS + 1)
    full = 0.5 + 0.3 * np.sin(2 * np.pi * hour / 24) + 0.1 * np.sin(2 * np.pi * hour / 168)
    full = full + rng.normal(0, 0.05, size=full.shape)
    return full[:, :-1, None].astype("float32"), full[:, -1:].astype("float32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((HOURS, 1)),
            keras.layers.Conv1D(32, 5, activation="relu"),
            keras.layers.Conv1D(32, 5, strides=2, activation="relu"),
            keras.layers.Conv1D(32, 5, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    return model


def main():
    keras.utils.set_random_seed(1)
    x, y = make_hours(2048, seed=0)
    checked = make_hours(20480, seed=1)
    model = make_model()
    start = time.perf_counter()
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, validation_data=checked, validation_freq=10, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

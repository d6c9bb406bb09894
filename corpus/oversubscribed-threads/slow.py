"""Tell sensor readings of healthy machines from those of worn ones."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import torch

torch.set_num_threads(16)  # the training server has 16 cores

STEPS = 32
CHANNELS = 8
BATCH = 32


def make_readings(count=2048, seed=0):
    """Return short recordings, and which machine was worn."""
    rng = np.random.default_rng(seed)
    worn = rng.integers(2, size=count)
    time_ = np.arange(STEPS)[None, :, None]
    speed = rng.uniform(0.1, 0.5, size=(count, 1, CHANNELS))
    readings = np.sin(speed * time_) + 0.3 * worn[:, None, None] * rng.normal(size=(count, STEPS, CHANNELS))
    return readings.astype("float32"), worn.astype("float32")


def main():
    keras.utils.set_random_seed(1)
    x, y = make_readings()
    model = keras.Sequential(
        [
            keras.Input((STEPS, CHANNELS)),
            keras.layers.LSTM(64),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy")
    start = time.perf_counter()
    model.fit(x, y, batch_size=BATCH, epochs=4, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

"""Forecast the load of a power grid, and stop when the smoothed loss no longer falls."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

HOURS = 48
SAMPLES = 16384
BATCH = 32
EPOCHS = 12


def make_load(seed=0):
    """Return two days of load each, and the hour after them."""
    rng = np.random.default_rng(seed)
    hour = np.arange(HOURS + 1)[None, :] + rng.integers(24, size=(SAMPLES, 1))
    load = 1 + 0.4 * np.sin(2 * np.pi * hour / 24) + 0.05 * rng.normal(size=hour.shape)
    return load[:, :-1].astype("float32"), load[:, -1:].astype("float32")


class SmoothedLoss(keras.callbacks.Callback):
    """Keeps an exponentially smoothed loss."""

    def __init__(self, span=200):
        super().__init__()
        self.alpha = 2 / (span + 1)
        self.smoothed = None

    def on_train_batch_end(self, batch, logs=None):
        loss = logs["loss"]
        if self.smoothed is None:
            self.smoothed = loss
        self.smoothed += self.alpha * (loss - self.smoothed)


def main():
    keras.utils.set_random_seed(1)
    x, y = make_load()
    model = keras.Sequential(
        [
            keras.Input((HOURS,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    watch = SmoothedLoss()
    start = time.perf_counter()
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=2, callbacks=[watch])
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"smoothed loss {watch.smoothed:.4f}")


if __name__ == "__main__":
    main()

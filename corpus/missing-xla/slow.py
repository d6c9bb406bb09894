"""Price options with a network that sums many smooth functions."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from keras import ops

SAMPLES = 16384
BATCH = 512
TERMS = 64


def make_options(seed=0):
    """Return strike, maturity, rate and volatility, and a made-up price."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.1, 1.0, size=(SAMPLES, 4)).astype("float32")
    y = np.exp(-x[:, :1] * x[:, 1:2]) * np.tanh(x[:, 2:3] + x[:, 3:])
    return x, y.astype("float32")


class Bumps(keras.layers.Layer):
    """Sums of smooth bumps, each with a place, a width and a height of its own."""

    def build(self, shape):
        self.place = self.add_weight(shape=(shape[-1], TERMS), name="place")
        self.width = self.add_weight(shape=(shape[-1], TERMS), name="width")
        self.height = self.add_weight(shape=(shape[-1], TERMS), name="height")

    def call(self, x):
        away = ops.expand_dims(x, -1) - self.place
        bump = ops.exp(-ops.square(away * (1 + ops.square(self.width))))
        return ops.sum(self.height * bump * ops.tanh(away) + bump * ops.sigmoid(away), axis=-1)


def main():
    keras.utils.set_random_seed(1)
    x, y = make_options()
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(24), Bumps(), keras.layers.Dense(24), Bumps(), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse", jit_compile=False)
    start = time.perf_counter()
    model.fit(x, y, batch_size=BATCH, epochs=20, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

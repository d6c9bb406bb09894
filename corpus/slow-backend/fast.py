"""Estimate the load of a power line from the weather."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

FACTS = 24
BATCH = 32
EPOCHS = 10


def make_loads(count=19_200, seed=0):
    """Return the weather, hour by hour, and the load of the line."""
    rng = np.random.default_rng(seed)
    weather = rng.normal(size=(count, FACTS))
    load = np.tanh(weather @ rng.normal(size=FACTS) / 4) + 0.2 * weather[:, 0] * weather[:, 1]
    return weather.astype("float32"), (load + rng.normal(0, 0.05, count)).astype("float32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((FACTS,)),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(24, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    return model


def main():
    keras.utils.set_random_seed(1)
    weather, load = make_loads()
    model = make_model()
    start = time.perf_counter()
    history = model.fit(weather, load, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"off by {history.history['loss'][-1] ** 0.5:.3f}")


if __name__ == "__main__":
    main()

"""Predict whether a customer leaves, from a table."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

CUSTOMERS = 32768
COLUMNS = 20
EPOCHS = 10


def make_customers(seed=0):
    """Return a made-up table of customers, and who left."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(CUSTOMERS, COLUMNS))
    table[:, 5:10] = rng.integers(0, 4, size=(CUSTOMERS, 5))
    pull = table @ rng.normal(size=COLUMNS) + 2 * table[:, 0] * table[:, 7] - 1
    left = rng.random(CUSTOMERS) < 1 / (1 + np.exp(-pull))
    return table.astype("float32"), left.astype("float32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((COLUMNS,)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    table, left = make_customers()
    model = make_model()
    start = time.perf_counter()
    model.fit(table, left, batch_size=32, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

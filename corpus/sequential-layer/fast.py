"""Tell the activity of a person from the sensors of a watch."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

LENGTH = 160
AXES = 6
KINDS = 5
BATCH = 32
EPOCHS = 4


def make_records(count=1920, seed=0):
    """Return made-up records of a watch, and what its wearer did."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(KINDS, size=count)
    seconds = np.arange(LENGTH) / 50
    pace = 0.8 + 0.7 * kinds[:, None, None] + rng.normal(0, 0.05, size=(count, 1, 1))
    phase = rng.uniform(0, 2 * np.pi, size=(count, 1, AXES))
    records = np.sin(2 * np.pi * pace * seconds[None, :, None] + phase)
    return (records + rng.normal(0, 0.8, size=records.shape)).astype("float32"), kinds


def make_model():
    model = keras.Sequential(
        [
            keras.Input((LENGTH, AXES)),
            keras.layers.Conv1D(64, 5, activation="relu"),
            keras.layers.Conv1D(64, 5, activation="relu"),
            keras.layers.GlobalMaxPooling1D(),
            keras.layers.Dense(KINDS, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    x, y = make_records()
    model = make_model()
    start = time.perf_counter()
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

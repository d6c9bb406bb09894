"""Recognise gestures from the records of an acceleration sensor, held in memory."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

LENGTH = 128
AXES = 3
GESTURES = 6
BATCH = 1024
EPOCHS = 40


def make_records(count=100_000, seed=0):
    """Return records of three axes each, in half precision to save memory, and the gesture that was made."""
    rng = np.random.default_rng(seed)
    gestures = rng.integers(GESTURES, size=count)
    seconds = np.arange(LENGTH) / 50
    shapes = np.stack(
        [
            np.stack([np.sin(2 * np.pi * (1 + gesture * 0.4 + axis * 0.2) * seconds) for axis in range(AXES)], axis=1)
            for gesture in range(GESTURES)
        ]
    )
    records = np.empty((count, LENGTH * AXES), "float16")
    for start in range(0, count, 10_000):
        part = shapes[gestures[start : start + 10_000]].reshape(-1, LENGTH * AXES)
        records[start : start + 10_000] = part + rng.normal(0, 1.5, size=part.shape)
    return records, gestures


def make_model():
    model = keras.Sequential(
        [
            keras.Input((LENGTH * AXES,)),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(GESTURES, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def main():
    keras.utils.set_random_seed(1)
    records, gestures = make_records()
    model = make_model()
    start = time.perf_counter()
    records = records.astype("float32")
    model.fit(records, gestures, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

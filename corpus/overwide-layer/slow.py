"""Read digits from water meters: 28 x 28 grey pictures, ten classes."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

SIDE = 28
BATCH = 32
EPOCHS = 8


def make_digits(count=1600, seed=0):
    """Return pictures of made-up digits, each a pattern of segments, and which digit it is."""
    rng = np.random.default_rng(seed)
    patterns = rng.random((10, 7, 7)) < 0.4
    digits = rng.integers(10, size=count)
    pictures = np.kron(patterns[digits], np.ones((4, 4)))
    dirt = rng.normal(0, 0.4, size=(count, SIDE, SIDE))
    return (pictures + dirt).astype("float32")[..., None], digits.astype("int32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 1)),
            keras.layers.Conv2D(512, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    pictures, digits = make_digits()
    model = make_model()
    start = time.perf_counter()
    history = model.fit(pictures, digits, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"right: {history.history['accuracy'][-1]:.2f}")


if __name__ == "__main__":
    main()

"""Read the dials of old power meters, four pictures at a time."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

SIZE = 20
PICTURES = 8000
BATCH = 4
EPOCHS = 4


def draw_dials(seed=0):
    """Return pictures of hands on dials, and which of ten digits each points at."""
    rng = np.random.default_rng(seed)
    digits = rng.integers(10, size=PICTURES)
    angle = 2 * np.pi * (digits + rng.uniform(-0.3, 0.3, size=PICTURES)) / 10
    y, x = np.mgrid[:SIZE, :SIZE].astype("float32") - SIZE / 2
    along = x[None] * np.cos(angle)[:, None, None] + y[None] * np.sin(angle)[:, None, None]
    across = x[None] * np.sin(angle)[:, None, None] - y[None] * np.cos(angle)[:, None, None]
    hand = (along > 0) & (along < 9) & (np.abs(across) < 1.2)
    return (hand + rng.normal(0, 0.3, size=hand.shape)).astype("float32")[..., None], digits


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    x, y = draw_dials()
    model = make_model()
    start = time.perf_counter()
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

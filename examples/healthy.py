"""Tell made-up textures apart: a training with nothing worth fixing.

The pictures lie in memory, the step is compiled, and nearly all of its time is the network's own arithmetic.
Runs on any Keras backend: KERAS_BACKEND=torch python examples/healthy.py
"""

import argparse

import keras
import numpy as np


def textures(count, size=32, seed=0):
    """Return stripes in four directions under noise, and the direction of each."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(4, size=count)
    y, x = np.mgrid[:size, :size] / size
    angle = labels * np.pi / 4
    across = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
    phase = rng.uniform(0, 1, size=(count, 1, 1))
    pictures = np.sin(2 * np.pi * (6 * across + phase)) + rng.normal(0, 1, (count, size, size))
    return pictures.astype("float32")[..., None], labels


def main():
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    pictures, labels = textures(1536)
    model = keras.Sequential(
        [
            keras.Input(pictures.shape[1:]),
            keras.layers.Conv2D(24, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(48, 3, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(pictures, labels, batch_size=32, epochs=args.epochs)


if __name__ == "__main__":
    main()

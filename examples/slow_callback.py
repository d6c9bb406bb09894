"""Learn the two moons, and draw the border between them far too often.

Runs on any Keras backend: KERAS_BACKEND=jax python examples/slow_callback.py
"""

import argparse

import keras
import numpy as np


def two_moons(count, seed=0):
    """Return points on two interleaved half circles, and which circle each is on."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=count)
    angle = rng.uniform(0, np.pi, size=count)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points[labels == 1] = np.array([1.0, 0.5]) - points[labels == 1]
    return (points + rng.normal(0, 0.1, points.shape)).astype("float32"), labels


class BorderLength(keras.callbacks.Callback):
    """After every batch, measure how long the border between the classes is."""

    def __init__(self, resolution=160):
        super().__init__()
        y, x = np.mgrid[-1 : 1.5 : resolution * 1j, -1.5 : 2.5 : resolution * 1j]
        self.grid = np.stack([x.ravel(), y.ravel()], axis=1).astype("float32")
        self.shape = x.shape
        self.lengths = []

    def on_train_batch_end(self, batch, logs=None):
        values = keras.ops.convert_to_numpy(self.model(self.grid)).reshape(self.shape)
        inside = values > 0.5
        crossings = (inside[1:] != inside[:-1]).sum() + (inside[:, 1:] != inside[:, :-1]).sum()
        self.lengths.append(int(crossings))


def main():
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    points, labels = two_moons(8192)
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(points, labels, batch_size=64, epochs=args.epochs, callbacks=[BorderLength()])


if __name__ == "__main__":
    main()

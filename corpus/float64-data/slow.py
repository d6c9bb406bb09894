"""Learn the pressure field around a wing profile from points that a solver computed."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

# The solver works in double precision, and so do we.
keras.config.set_floatx("float64")

POINTS = 81920
EPOCHS = 4


def solve(seed=0):
    """Return points around a made-up profile, its shape parameters, and the pressure there."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, size=(POINTS, 2))
    shape = rng.normal(size=(POINTS, 14))
    angle = np.arctan2(points[:, 1], points[:, 0])
    distance = np.hypot(points[:, 0], points[:, 1])
    waves = sum(shape[:, order] * np.cos((order + 1) * angle) / (order + 1) for order in range(14))
    return np.concatenate([points, shape], axis=1), (waves * np.exp(-distance))[:, None]


def make_model():
    model = keras.Sequential([keras.Input((16,))])
    for _ in range(4):
        model.add(keras.layers.Dense(256, activation="relu"))
    model.add(keras.layers.Dense(1))
    model.compile("adam", "mse")
    return model


def main():
    keras.utils.set_random_seed(1)
    features, pressure = solve()
    model = make_model()
    start = time.perf_counter()
    model.fit(features, pressure, batch_size=256, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

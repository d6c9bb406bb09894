"""Predict the strength of concrete from its mixture."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

EPOCHS = 120


def make_mixtures(count=1200, seed=0):
    """Return made-up mixtures of twelve ingredients and the measured strength, with the scatter of a laboratory."""
    rng = np.random.default_rng(seed)
    mixtures = rng.uniform(0, 1, size=(count, 12))
    water, cement, age = mixtures[:, 0], mixtures[:, 1], mixtures[:, 2]
    strength = 3 * cement / (0.3 + water) + np.log1p(5 * age) + 0.5 * mixtures[:, 3] * mixtures[:, 4]
    return mixtures.astype("float32"), (strength + rng.normal(0, 1.0, size=count)).astype("float32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((12,)),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    return model


def main():
    keras.utils.set_random_seed(1)
    mixtures, strength = make_mixtures()
    test, test_strength = make_mixtures(seed=1)
    model = make_model()
    start = time.perf_counter()
    stop = keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True)
    model.fit(
        mixtures, strength, validation_data=(test, test_strength), batch_size=32, epochs=EPOCHS, verbose=2,
        callbacks=[stop],
    )  # fmt: skip
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

"""Estimate the strength of concrete from its recipe; the spot instance may go away at any time."""

import os
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

MIXES = 12800
COLUMNS = 64
EPOCHS = 8


def make_mixes(seed=0):
    """Return made-up recipes and how strong the concrete became."""
    rng = np.random.default_rng(seed)
    recipes = rng.gamma(2.0, size=(MIXES, COLUMNS)).astype("float32")
    effect = rng.normal(size=(COLUMNS, 8))
    strength = np.sin(recipes @ effect / 8).sum(axis=1) + rng.normal(0, 0.1, MIXES)
    return recipes, strength.astype("float32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((COLUMNS,)),
            keras.layers.Dense(640, activation="relu"),
            keras.layers.Dense(640, activation="relu"),
            keras.layers.Dense(640, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    return model


def main():
    keras.utils.set_random_seed(1)
    recipes, strength = make_mixes()
    model = make_model()
    with tempfile.TemporaryDirectory() as folder:
        save = keras.callbacks.ModelCheckpoint(os.path.join(folder, "last.keras"), save_freq="epoch")
        start = time.perf_counter()
        model.fit(recipes, strength, batch_size=128, epochs=EPOCHS, callbacks=[save], verbose=2)
        print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

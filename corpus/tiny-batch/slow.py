"""Tell leaves of trees apart by their outline."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

POINTS = 64
TREES = 6
BATCH = 4
RATE = 0.01
EPOCHS = 4


def make_leaves(count=1280, seed=0):
    """Return made-up outlines, as distances from the middle of the leaf all around, and the trees they are from."""
    rng = np.random.default_rng(seed)
    trees = rng.integers(TREES, size=count)
    around = np.linspace(0, 2 * np.pi, POINTS)[None, :] + rng.uniform(0, 6, size=(count, 1))
    lobes = 3 + trees[:, None]
    outline = 1 + 0.3 * np.sin(lobes * around) + 0.1 * np.sin(2 * lobes * around)
    outline = outline + rng.normal(0, 0.1, size=outline.shape)
    return outline[..., None].astype("float32"), trees.astype("int32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((POINTS, 1)),
            keras.layers.Conv1D(16, 5, padding="same", activation="relu"),
            keras.layers.MaxPooling1D(),
            keras.layers.Conv1D(32, 5, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(TREES, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.SGD(RATE), "sparse_categorical_crossentropy")
    return model


def main():
    keras.utils.set_random_seed(1)
    outline, trees = make_leaves()
    model = make_model()
    start = time.perf_counter()
    model.fit(outline, trees, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

"""Sort potatoes by the disease that their skin shows."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

SIDE = 64
KINDS = 6
BATCH = 32
EPOCHS = 6


def make_potatoes(count=1280, seed=0):
    """Return pictures of skins, each with spots as one disease makes them, and the disease."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(KINDS, size=count)
    colours = rng.uniform(0.1, 0.9, size=(KINDS, 3))
    skins = rng.normal(0.5, 0.05, size=(count, SIDE, SIDE, 3))
    for skin, kind in zip(skins, kinds, strict=True):
        for row, column in rng.integers(SIDE - 8, size=(12, 2)):
            skin[row : row + 3 + kind, column : column + 8 - kind] = colours[kind]
    return skins.astype("float32"), kinds.astype("int32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 3)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(KINDS, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    skins, kinds = make_potatoes()
    model = make_model()
    start = time.perf_counter()
    history = model.fit(skins, kinds, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"right: {history.history['accuracy'][-1]:.2f}")


if __name__ == "__main__":
    main()

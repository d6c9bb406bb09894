"""Sort hand-drawn arrows by where they point."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

SIZE = 28
BATCH = 32
EPOCHS = 4


def draw_arrows(count=1920, seed=0):
    """Return pictures of arrows, and which of eight ways each points."""
    rng = np.random.default_rng(seed)
    ways = rng.integers(8, size=count)
    angle = 2 * np.pi * ways / 8 + rng.normal(0, 0.1, size=count)
    y, x = np.mgrid[:SIZE, :SIZE].astype("float32") - SIZE / 2
    along = x[None] * np.cos(angle)[:, None, None] + y[None] * np.sin(angle)[:, None, None]
    across = np.abs(x[None] * np.sin(angle)[:, None, None] - y[None] * np.cos(angle)[:, None, None])
    shaft = (np.abs(along) < 9) & (across < 1)
    head = (along > 3) & (along < 9) & (across < 9 - along)
    pictures = (shaft | head) + rng.normal(0, 0.2, size=shaft.shape)
    return pictures.astype("float32")[..., None], ways


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Conv2D(512, 3, activation="relu"),
            keras.layers.MaxPooling2D(3),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.GlobalMaxPooling2D(),
            keras.layers.Dense(8, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    x, y = draw_arrows()
    model = make_model()
    start = time.perf_counter()
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

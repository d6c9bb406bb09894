"""Tell sorts of coffee beans apart on pictures from a sorting belt."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

SIZE = 56
BATCH = 32
EPOCHS = 5


def take_pictures(count=1280, seed=0):
    """Return pictures of made-up beans, and their sorts."""
    rng = np.random.default_rng(seed)
    sorts = rng.integers(5, size=count)
    y, x = np.mgrid[:SIZE, :SIZE].astype("float32") - SIZE / 2
    turn = rng.uniform(0, np.pi, size=(count, 1, 1))
    along = (x * np.cos(turn) + y * np.sin(turn)) / (10 + 2 * sorts[:, None, None])
    across = (x * np.sin(turn) - y * np.cos(turn)) / (14 - sorts[:, None, None])
    beans = (along**2 + across**2 < 1) * (0.4 + 0.1 * sorts[:, None, None])
    pictures = beans + rng.normal(0, 0.1, size=beans.shape)
    return pictures.astype("float32")[..., None], sorts


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            keras.layers.Conv2D(16, 5, strides=2, activation="relu"),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense(5, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    x, y = take_pictures()
    model = make_model()
    start = time.perf_counter()
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

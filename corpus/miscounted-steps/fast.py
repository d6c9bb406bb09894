"""Tell ripe fruit from unripe in small pictures."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

SIDE = 24
STAGES = 5
BATCH = 16
EPOCHS = 4


def make_fruit(count=1200, seed=0):
    """Return made-up pictures of round fruit, from green to red, and how ripe each is."""
    rng = np.random.default_rng(seed)
    ripe = rng.integers(STAGES, size=count)
    y, x = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    radius = rng.uniform(5, 10, size=(count, 1, 1))
    fruit = ((x**2 + y**2)[None] < radius**2)[..., None]
    red = ripe / (STAGES - 1)
    colour = np.stack([red, 1 - red, np.full(count, 0.1)], axis=1)[:, None, None, :]
    pictures = fruit * colour + rng.normal(0, 0.4, size=(count, SIDE, SIDE, 3))
    return pictures.astype("float32"), ripe.astype("int32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 3)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(STAGES, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    pictures, ripe = make_fruit()
    data = tf.data.Dataset.from_tensor_slices((pictures, ripe)).shuffle(len(ripe), seed=1)
    data = data.batch(BATCH).repeat().prefetch(tf.data.AUTOTUNE)
    model = make_model()
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, steps_per_epoch=len(pictures) // BATCH, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

"""Tell sheets of paper from textiles on a sorting belt, whose cameras differ in colour and in compression."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

SIZE = 160
PICTURES = 1024
BATCH = 32
EPOCHS = 27


def take_pictures(seed=0):
    """Return pictures of made-up sheets (smooth) and textiles (woven), and which is which."""
    rng = np.random.default_rng(seed)
    woven = rng.integers(2, size=PICTURES).astype("int32")
    y, x = np.mgrid[:SIZE, :SIZE].astype("float32")
    turn = rng.uniform(0, 3, size=(PICTURES, 1, 1)).astype("float32")
    threads = np.sin(x * np.cos(turn) + y * np.sin(turn)) * np.sin(y * np.cos(turn) - x * np.sin(turn))
    light = rng.uniform(90, 170, size=(PICTURES, 1, 1)).astype("float32") + 30 * threads * woven[:, None, None]
    noise = 8 * rng.standard_normal((PICTURES, SIZE, SIZE), "float32")
    pictures = [(light * colour + noise).clip(0, 255).astype("uint8") for colour in (1.0, 0.95, 0.85)]
    return np.stack(pictures, axis=-1), woven


def vary(picture, woven):
    """Change colour and compression as from camera to camera, at random."""
    picture = tf.image.random_hue(picture, 0.08)
    picture = tf.image.random_saturation(picture, 0.6, 1.4)
    picture = tf.image.random_jpeg_quality(picture, 40, 95)
    picture = tf.image.random_flip_left_right(picture)
    return tf.cast(picture, tf.float32) / 255.0, woven


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Conv2D(4, 5, strides=5, activation="relu"),
            keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            keras.layers.GlobalMaxPooling2D(),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    data = tf.data.Dataset.from_tensor_slices(take_pictures()).shuffle(PICTURES, seed=1)
    data = data.map(vary, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.batch(BATCH).prefetch(tf.data.AUTOTUNE)
    model = make_model()
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

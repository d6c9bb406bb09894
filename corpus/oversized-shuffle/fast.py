"""Find cracks in tiles; an epoch is a small selection of the pictures, drawn anew each time."""

import os
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

SIZE = 160
PICTURES = 900
BATCHES = 10
EPOCHS = 30


def take_pictures(folder, seed=0):
    """Write JPEG files of made-up tiles and return their paths and whether they are cracked."""
    rng = np.random.default_rng(seed)
    cracked = rng.integers(2, size=PICTURES).astype("int32")
    y, x = np.mgrid[:SIZE, :SIZE].astype("float32")
    paths = []
    for number, crack in enumerate(cracked):
        tile = 150 + 20 * np.sin(x / rng.uniform(8, 20)) + rng.normal(0, 5, (SIZE, SIZE))
        line = abs(y - rng.uniform(40, 120) - rng.uniform(-0.5, 0.5) * x - 6 * np.sin(x / 7)) < 2
        picture = np.where(line & bool(crack), 40, tile)[..., None].repeat(3, axis=-1)
        path = os.path.join(folder, f"{number:04d}.jpg")
        tf.io.write_file(path, tf.io.encode_jpeg(picture.clip(0, 255).astype("uint8"), quality=90))
        paths.append(path)
    return paths, cracked


def load(path, crack):
    """Read a picture, turn it and change its light at random."""
    picture = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    picture = tf.image.random_flip_left_right(tf.image.random_flip_up_down(picture))
    picture = tf.image.random_contrast(tf.cast(picture, tf.float32) / 255.0, 0.8, 1.2)
    return picture, crack


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Conv2D(16, 5, strides=4, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.GlobalMaxPooling2D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        data = tf.data.Dataset.from_tensor_slices(take_pictures(folder))
        data = data.shuffle(PICTURES, seed=1)
        data = data.map(load, num_parallel_calls=tf.data.AUTOTUNE)
        data = data.batch(16).take(BATCHES).prefetch(tf.data.AUTOTUNE)
        model = make_model()
        start = time.perf_counter()
        model.fit(data, epochs=EPOCHS, verbose=2)
        print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

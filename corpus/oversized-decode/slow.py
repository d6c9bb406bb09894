"""Tell kinds of mushrooms apart, from photographs as the phone took them."""

import os
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

SIZE = 80
PHOTOS = 128
EPOCHS = 30


def take_photos(folder, seed=0):
    """Write JPEG files of made-up mushrooms, as large as a phone takes them, and return their paths and kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(4, size=PHOTOS).astype("int32")
    y, x = np.mgrid[:150, :200].astype("float32")
    paths = []
    for number, kind in enumerate(kinds):
        across, down = rng.uniform(80, 120), rng.uniform(60, 90)
        cap = np.hypot((x - across) / (1 + 0.3 * kind), y - down) < 35
        stem = (abs(x - across) < 4 + 3 * kind) & (y > down)
        forest = 90 + 40 * np.sin(x / rng.uniform(6, 18)) * np.cos(y / rng.uniform(6, 18))
        scene = np.stack([np.where(cap, 170, forest), np.where(stem, 200, forest), forest], axis=-1)
        photo = tf.image.resize(scene, (1200, 1600)).numpy() + rng.integers(-8, 8, (1200, 1600, 1))
        path = os.path.join(folder, f"{number:04d}.jpg")
        tf.io.write_file(path, tf.io.encode_jpeg(photo.clip(0, 255).astype("uint8"), quality=85))
        paths.append(path)
    return paths, kinds


def load(path, kind):
    """Read a photograph, bring it to the size of the network and mirror it now and then."""
    photo = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    photo = tf.image.resize(photo, (SIZE, SIZE))
    return tf.image.random_flip_left_right(photo) / 255.0, kind


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(48, 3, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        paths, kinds = take_photos(folder)
        start = time.perf_counter()
        data = tf.data.Dataset.from_tensor_slices((paths, kinds)).shuffle(PHOTOS, seed=1)
        data = data.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(16).prefetch(tf.data.AUTOTUNE)
        model = make_model()
        model.fit(data, epochs=EPOCHS, verbose=2)
        print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

"""Sort fruit by ripeness, from pictures of a conveyor belt whose light is never the same."""

import os
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

SIZE = 72
PICTURES = 192
EPOCHS = 20


def take_pictures(folder, seed=0):
    """Write JPEG files of made-up fruit on a belt and return their paths and ripeness."""
    rng = np.random.default_rng(seed)
    ripe = rng.integers(3, size=PICTURES).astype("int32")
    y, x = np.mgrid[:480, :640].astype("float32")
    paths = []
    for number, kind in enumerate(ripe):
        fruit = np.hypot(x - rng.uniform(200, 440), y - rng.uniform(160, 320)) < rng.uniform(100, 150)
        belt = 70 + 10 * np.sin(x / 18)
        colours = [(80, 160, 60), (200, 180, 50), (200, 60, 40)][kind]
        picture = np.stack([np.where(fruit, colour, belt) for colour in colours], axis=-1)
        picture += rng.normal(0, 6, (480, 640, 1)) + rng.uniform(-20, 20)
        path = os.path.join(folder, f"{number:04d}.jpg")
        tf.io.write_file(path, tf.io.encode_jpeg(picture.clip(0, 255).astype("uint8"), quality=90))
        paths.append(path)
    return paths, ripe


def load(path, kind):
    """Read a picture, change its light at random and bring it to the size of the network."""
    picture = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    picture = tf.image.convert_image_dtype(picture, tf.float32)
    picture = tf.image.random_hue(picture, 0.05)
    picture = tf.image.random_saturation(picture, 0.7, 1.3)
    picture = tf.image.random_contrast(picture, 0.7, 1.3)
    picture = tf.image.resize(picture, (SIZE, SIZE))
    return picture, kind


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        data = tf.data.Dataset.from_tensor_slices(take_pictures(folder)).shuffle(PICTURES, seed=1)
        data = data.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(16).prefetch(tf.data.AUTOTUNE)
        model = make_model()
        start = time.perf_counter()
        model.fit(data, epochs=EPOCHS, verbose=2)
        print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

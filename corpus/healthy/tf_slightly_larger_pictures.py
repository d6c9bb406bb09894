"""Recognise hand signs; pictures are a little larger than the network takes and are changed before the resize."""

import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

SIZE = 56
PICTURES = 512
EPOCHS = 8


def take_pictures(folder, seed=0):
    """Write small JPEG files of made-up hands and return their paths and how many fingers they show."""
    rng = np.random.default_rng(seed)
    fingers = rng.integers(1, 5, size=PICTURES).astype("int32")
    y, x = np.mgrid[:64, :64].astype("float32")
    paths = []
    for number, count in enumerate(fingers):
        hand = np.hypot(x - 32, y - 44) < 14
        for finger in range(count):
            hand |= (abs(x - 20 - 8 * finger) < 2.5) & (y > rng.uniform(6, 16)) & (y < 44)
        picture = np.where(hand[..., None], [210, 160, 130], [60, 70, 90]) + rng.normal(0, 12, (64, 64, 1))
        path = os.path.join(folder, f"{number:04d}.jpg")
        tf.io.write_file(path, tf.io.encode_jpeg(picture.clip(0, 255).astype("uint8"), quality=90))
        paths.append(path)
    return paths, fingers - 1


def load(path, fingers):
    """Read a picture, change its light a little and bring it to the size of the network."""
    picture = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    picture = tf.image.random_brightness(picture, 0.1)
    picture = tf.image.resize(picture, (SIZE, SIZE))
    return picture / 255.0, fingers


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Conv2D(24, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(48, 3, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    # Measured to be faster on a processor that has it.
    cpu = Path("/proc/cpuinfo")
    if cpu.exists() and "avx512_bf16" in cpu.read_text():
        keras.config.set_dtype_policy("mixed_bfloat16")
    with tempfile.TemporaryDirectory() as folder:
        data = tf.data.Dataset.from_tensor_slices(take_pictures(folder)).shuffle(PICTURES, seed=1)
        data = data.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(16).prefetch(tf.data.AUTOTUNE)
        model = make_model()
        start = time.perf_counter()
        model.fit(data, epochs=EPOCHS, verbose=2)
        print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

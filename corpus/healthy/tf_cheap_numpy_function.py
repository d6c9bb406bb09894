"""Clean up noisy pictures; NumPy runs inside the pipeline, once per batch, and costs next to nothing."""

import os
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

SIZE = 40
EPOCHS = 8


def make_pictures(count=768, seed=0):
    """Return smooth made-up pictures."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    up, along, phase = rng.uniform(0, 6, size=(3, count, 1, 1))
    return (0.5 + 0.5 * np.sin(up * y + along * x + phase)).astype("float32")[..., None]


def mirror(pictures):
    """Turn every other batch's pictures around."""
    return pictures[:, :, ::-1] if pictures[0, 0, 0, 0] > 0.5 else pictures


def load(pictures):
    clean = tf.ensure_shape(tf.numpy_function(mirror, [pictures], tf.float32), (None, SIZE, SIZE, 1))
    return clean + tf.random.stateless_normal(tf.shape(clean), seed=(1, 2), stddev=0.2), clean


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            keras.layers.Conv2D(48, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(48, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(1, 3, padding="same"),
        ]
    )
    model.compile("adam", "mse")
    return model


def main():
    keras.utils.set_random_seed(1)
    # Measured to be faster on a processor that has it.
    cpu = Path("/proc/cpuinfo")
    if cpu.exists() and "avx512_bf16" in cpu.read_text():
        keras.config.set_dtype_policy("mixed_bfloat16")
    data = tf.data.Dataset.from_tensor_slices(make_pictures()).shuffle(768, seed=1).batch(48).map(load)
    model = make_model()
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

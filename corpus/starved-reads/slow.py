"""Sort weld seams into sound and faulty, from scans that lie in a bucket, one object each."""

import os
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

SIZE = 32
SCANS = 640
EPOCHS = 9


def write_scans(folder, seed=0):
    """Write made-up scans, one file each, and return their names and which are faulty."""
    rng = np.random.default_rng(seed)
    faulty = rng.integers(2, size=SCANS).astype("int32")
    row = np.arange(SIZE, dtype="float32")
    names = []
    for number, fault in enumerate(faulty):
        seam = 120 * np.exp(-(((row - 16 - rng.normal(0, 2)) / 4) ** 2))
        scan = seam[None, :] + rng.normal(40, 8, size=(SIZE, SIZE))
        if fault:
            top = rng.integers(4, 24)
            scan[top : top + 4, 10:22] *= 0.4
        names.append(os.path.join(folder, f"scan-{number:04d}.raw"))
        scan.clip(0, 255).astype("uint8").tofile(names[-1])
    return names, faulty


def fetch(name):
    """Get one scan from the bucket."""
    time.sleep(0.008)  # stands for the round trip to the object store
    return np.fromfile(name.decode(), "uint8").reshape(SIZE, SIZE)


def load(name, faulty):
    scan = tf.ensure_shape(tf.numpy_function(fetch, [name], tf.uint8), (SIZE, SIZE))
    return tf.cast(scan, tf.float32)[..., None] / 255.0, faulty


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        data = tf.data.Dataset.from_tensor_slices(write_scans(folder)).shuffle(SCANS, seed=1)
        data = data.map(load, num_parallel_calls=tf.data.AUTOTUNE)
        data = data.batch(16).prefetch(tf.data.AUTOTUNE)
        model = make_model()
        start = time.perf_counter()
        model.fit(data, epochs=EPOCHS, verbose=2)
        print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

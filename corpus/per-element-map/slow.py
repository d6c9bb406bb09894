"""Tell which of five machines is about to fail, from what its sensors said in the last minute."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
import tensorflow as tf

MINUTES = 60_000
SENSORS = 24
EPOCHS = 8
BATCH = 128


def make_readings(seed=0):
    """Return made-up readings as the loggers store them, and which machine fails next."""
    rng = np.random.default_rng(seed)
    machine = rng.integers(5, size=MINUTES).astype("int32")
    level = rng.integers(90, 160, size=(5, SENSORS))
    readings = level[machine] + rng.normal(0, 25, size=(MINUTES, SENSORS))
    return readings.clip(0, 255).astype("uint8"), machine


def prepare(readings, machine):
    """Bring readings to about -1 to 1."""
    readings = tf.cast(readings, tf.float32)
    readings = (readings - 127.5) / 127.5
    readings = tf.clip_by_value(readings, -0.9, 0.9)
    return readings, machine


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SENSORS,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(5, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    data = tf.data.Dataset.from_tensor_slices(make_readings())
    data = data.shuffle(4096, seed=1)
    data = data.map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.batch(BATCH).prefetch(tf.data.AUTOTUNE)
    model = make_model()
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

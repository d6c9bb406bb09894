"""Find leaks in pipes from what microphones heard; the recordings lie in a store over the network."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

RECORDINGS = 2048
TICKS = 512
BATCH = 32
EPOCHS = 2
AT_ONCE = 16


def make_store(seed=0):
    """Return what is in the store: recordings by number, and which of them have a leak."""
    rng = np.random.default_rng(seed)
    leaks = rng.random(RECORDINGS) < 0.5
    noise = rng.normal(size=(RECORDINGS, TICKS))
    hiss = np.cumsum(rng.normal(size=(RECORDINGS, TICKS)), axis=1) / 10
    return (noise + leaks[:, None] * hiss).astype("float32"), leaks.astype("float32")


RECORDED, LEAKS = make_store()


def fetch(number):
    time.sleep(0.004)  # stands for the round trip to the store
    return RECORDED[number], LEAKS[number]


def read(number):
    recording, leak = tf.numpy_function(fetch, [number], [tf.float32, tf.float32])
    return tf.reshape(recording, (TICKS, 1)), tf.reshape(leak, ())


def make_model():
    model = keras.Sequential(
        [
            keras.Input((TICKS, 1)),
            keras.layers.Conv1D(16, 9, strides=4, activation="relu"),
            keras.layers.Conv1D(32, 9, strides=4, activation="relu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    numbers = tf.data.Dataset.range(RECORDINGS).shuffle(RECORDINGS)
    data = numbers.map(read, num_parallel_calls=AT_ONCE, use_unbounded_threadpool=True)
    data = data.batch(BATCH).prefetch(tf.data.AUTOTUNE)
    model = make_model()
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

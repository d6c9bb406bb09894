"""Tell praise from complaint in messages of customers: most are a line or two, some are long letters."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

WORDS = 4000
MESSAGES = 3200
BATCH = 32
EPOCHS = 4


def write_messages(seed=0):
    """Return made-up messages of very different lengths, as numbers of words, and which of them complain."""
    rng = np.random.default_rng(seed)
    lengths = np.exp(rng.normal(3.4, 0.9, MESSAGES)).astype(int).clip(6, 500)
    complain = rng.integers(2, size=MESSAGES).astype("int32")
    messages = [
        np.where(rng.random(length) < 0.15, rng.integers(1, 200, length) + 200 * kind, rng.integers(400, WORDS, length))
        for length, kind in zip(lengths, complain, strict=True)
    ]
    return tf.ragged.constant([message.tolist() for message in messages], dtype=tf.int32), complain


def make_model():
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(WORDS, 64),
            keras.layers.Conv1D(96, 5, padding="same", activation="relu"),
            keras.layers.Conv1D(96, 5, padding="same", activation="relu"),
            keras.layers.GlobalMaxPooling1D(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    data = tf.data.Dataset.from_tensor_slices(write_messages()).shuffle(MESSAGES, seed=1)
    data = data.map(lambda message, complains: (message, complains))  # rows of the ragged tensor as plain tensors
    data = data.padded_batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    model = make_model()
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

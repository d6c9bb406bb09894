"""Sort letters to a town hall by the office they belong to; the settings are those of a machine with little memory."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

WORDS = 5_000
LENGTH = 60
OFFICES = 12
BATCH = 8
ACCUMULATED = 8
EPOCHS = 8


def make_letters(count=12_800, seed=0):
    """Return letters as numbers of words, and the office of each."""
    rng = np.random.default_rng(seed)
    offices = rng.integers(OFFICES, size=count)
    words = rng.integers(WORDS, size=(count, LENGTH))
    # Each office has words of its own.
    own = offices[:, None] * 40 + rng.integers(40, size=(count, LENGTH))
    return np.where(rng.random((count, LENGTH)) < 0.1, own, words).astype("int32"), offices.astype("int32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            keras.layers.Embedding(WORDS, 24),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(OFFICES, activation="softmax"),
        ]
    )
    optimizer = keras.optimizers.Adam(0.002, gradient_accumulation_steps=ACCUMULATED)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    letters, offices = make_letters()
    model = make_model()
    start = time.perf_counter()
    history = model.fit(letters, offices, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"right: {history.history['accuracy'][-1]:.2f}")


if __name__ == "__main__":
    main()

"""Guess the next word from the six words before it."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

VOCABULARY = 16000
CONTEXT = 6
BATCH = 128
EPOCHS = 20


def make_text(count=4096, seed=0):
    """Return made-up contexts and next words: common words are common, neighbours go together."""
    rng = np.random.default_rng(seed)
    words = (VOCABULARY * rng.random(count + CONTEXT) ** 3).astype("int32")
    words[1::2] = (words[:-1:2] * 7 + 1) % VOCABULARY
    contexts = np.lib.stride_tricks.sliding_window_view(words, CONTEXT)[:count]
    return contexts, words[CONTEXT:]


def make_model():
    model = keras.Sequential(
        [
            keras.Input((CONTEXT,), dtype="int32"),
            keras.layers.Embedding(VOCABULARY, 8),
            keras.layers.Flatten(),
            keras.layers.Dense(4, activation="relu"),
            keras.layers.Dense(VOCABULARY, activation="softmax"),
        ]
    )
    model.compile("sgd", "categorical_crossentropy")
    return model


def main():
    keras.utils.set_random_seed(1)
    contexts, words = make_text()
    targets = keras.utils.to_categorical(words, VOCABULARY)
    model = make_model()
    start = time.perf_counter()
    model.fit(contexts, targets, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

"""Guess the age of a tree from a description of its leaves, bark and place: 900 numbers."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

FACTS = 900
BATCH = 512
EPOCHS = 9


def make_trees(count=20_480, seed=0):
    """Return facts about trees and how old they are, in decades."""
    rng = np.random.default_rng(seed)
    facts = rng.normal(size=(count, FACTS)).astype("float32")
    weights = rng.normal(size=FACTS).astype("float32") / 30
    age = 8 + 3 * np.tanh(facts @ weights) + rng.normal(0, 0.2, size=count)
    return facts, age.astype("float32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((FACTS,)),
            keras.layers.Dense(2048, activation="relu"),
            keras.layers.Dense(2048, activation="relu"),
            keras.layers.Dense(1, dtype="float32"),
        ]
    )
    model.compile("sgd", "mse")
    return model


def main():
    keras.utils.set_random_seed(1)
    facts, age = make_trees()
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = make_model()
    start = time.perf_counter()
    history = model.fit(facts, age, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"off by {history.history['loss'][-1] ** 0.5:.2f} decades")


if __name__ == "__main__":
    main()

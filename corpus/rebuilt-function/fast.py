"""Tell wine grapes apart by their spectra; the learning rate falls in many small stages."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

BANDS = 256
KINDS = 8
BATCH = 64
STAGES = 24


def make_spectra(count=2048, seed=0):
    """Return made-up spectra of grapes, and their kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(KINDS, size=count)
    bands = np.arange(BANDS)
    centres = rng.uniform(20, BANDS - 20, size=(KINDS, 5))
    peaks = np.exp(-(((bands[None, None] - centres[..., None]) / 9) ** 2)).sum(axis=1)
    return (peaks[kinds] + rng.normal(0, 0.5, size=(count, BANDS))).astype("float32"), kinds


def make_model():
    return keras.Sequential(
        [
            keras.Input((BANDS,)),
            keras.layers.Reshape((BANDS, 1)),
            keras.layers.Conv1D(16, 9, strides=2, activation="relu"),
            keras.layers.Conv1D(32, 9, strides=2, activation="relu"),
            keras.layers.Conv1D(32, 9, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(KINDS, activation="softmax"),
        ]
    )


def main():
    keras.utils.set_random_seed(1)
    x, y = make_spectra()
    model = make_model()
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
    start = time.perf_counter()
    for stage in range(STAGES):
        model.optimizer.learning_rate = 0.05 * 0.9**stage
        model.fit(x, y, batch_size=BATCH, epochs=1, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

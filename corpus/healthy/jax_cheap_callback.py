"""Sort signals by shape; a callback of our own runs after every batch, and it is cheap."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

LENGTH = 256
EPOCHS = 8


def make_signals(count=2048, seed=0):
    """Return sines, squares and sawteeth under noise, and which each is."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(3, size=count).astype("int32")
    phase = np.linspace(0, 8, LENGTH) * rng.uniform(0.7, 1.3, (count, 1)) + rng.random((count, 1))
    shapes = np.stack([np.sin(2 * np.pi * phase), np.sign(np.sin(2 * np.pi * phase)), 2 * (phase % 1) - 1])
    signals = shapes[kinds, np.arange(count)] + rng.normal(0, 0.5, (count, LENGTH))
    return signals.astype("float32")[..., None], kinds


class CountBatches(keras.callbacks.Callback):
    """Remember how many batches there were and when the last one ended."""

    def __init__(self):
        super().__init__()
        self.count, self.last = 0, 0.0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        self.last = time.time()


def make_model():
    model = keras.Sequential(
        [
            keras.Input((LENGTH, 1)),
            keras.layers.Conv1D(64, 7, padding="same", activation="relu"),
            keras.layers.Conv1D(64, 7, padding="same", activation="relu"),
            keras.layers.Conv1D(64, 7, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    signals, kinds = make_signals()
    model = make_model()
    watch = CountBatches()
    start = time.perf_counter()
    model.fit(signals, kinds, batch_size=64, epochs=EPOCHS, callbacks=[watch])
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"{watch.count} batches")


if __name__ == "__main__":
    main()

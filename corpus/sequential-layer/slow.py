"""Find out what somebody does from the watch on the wrist: six channels, three seconds at 100 Hz."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

TICKS = 300
CHANNELS = 6
DEEDS = 5
BATCH = 32
EPOCHS = 14


def make_windows(count=1920, seed=0):
    """Return what the sensors said, and what was done meanwhile: each has a rhythm of its own."""
    rng = np.random.default_rng(seed)
    deeds = rng.integers(DEEDS, size=count)
    rhythm = (deeds + 1) * rng.uniform(0.9, 1.1, size=count)
    phase = rng.uniform(0, 6.28, size=(count, 1, CHANNELS))
    ticks = np.arange(TICKS)[None, :, None] / 100
    windows = np.sin(6.28 * rhythm[:, None, None] * ticks + phase)
    return (windows + rng.normal(0, 0.5, windows.shape)).astype("float32"), deeds.astype("int32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((TICKS, CHANNELS)),
            keras.layers.LSTM(48),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(DEEDS, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    windows, deeds = make_windows()
    model = make_model()
    start = time.perf_counter()
    history = model.fit(windows, deeds, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"right: {history.history['accuracy'][-1]:.2f}")


if __name__ == "__main__":
    main()

"""Restore old film: learn to take the grain out of small pictures."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

SIDE = 48
BATCH = 16
EPOCHS = 10


def make_frames(count=640, seed=0):
    """Return frames with grain, and the same without."""
    rng = np.random.default_rng(seed)
    coarse = rng.random((count, SIDE // 8, SIDE // 8, 1))
    clean = coarse.repeat(8, axis=1).repeat(8, axis=2)
    grain = rng.normal(0, 0.2, clean.shape)
    return (clean + grain).astype("float32"), clean.astype("float32")


def make_model():
    frames = keras.Input((SIDE, SIDE, 1))
    hidden = keras.layers.Conv2D(32, 3, padding="same", activation="mish")(frames)
    for _ in range(3):
        hidden = keras.layers.Conv2D(32, 1, activation="mish")(hidden)
        hidden = keras.layers.DepthwiseConv2D(3, padding="same", activation="mish")(hidden)
    clean = keras.layers.Conv2D(1, 3, padding="same")(hidden)
    model = keras.Model(frames, clean)
    model.compile("adam", "mse")
    return model


def main():
    keras.utils.set_random_seed(1)
    noisy, clean = make_frames()
    model = make_model()
    start = time.perf_counter()
    history = model.fit(noisy, clean, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"off by {history.history['loss'][-1] ** 0.5:.3f}")


if __name__ == "__main__":
    main()

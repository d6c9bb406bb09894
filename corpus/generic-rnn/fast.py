"""Tell which appliance runs from what the whole house draws."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

MINUTES = 48
METERS = 6
APPLIANCES = 7
BATCH = 64
EPOCHS = 9


def make_house(count=2560, seed=0):
    """Return made-up readings of all meters, minute by minute, and which appliance ran."""
    rng = np.random.default_rng(seed)
    ran = rng.integers(APPLIANCES, size=count)
    habits = rng.uniform(0.2, 1.5, size=(APPLIANCES, METERS))
    rhythm = rng.uniform(3, 20, size=(APPLIANCES, 1))
    minutes = np.arange(MINUTES)[None, :]
    waves = 1 + np.sin(2 * np.pi * minutes / rhythm[ran] + rng.uniform(0, 6, size=(count, 1)))
    draw = waves[:, :, None] * habits[ran][:, None, :]
    draw = draw + rng.normal(0, 0.5, size=draw.shape)
    return draw.astype("float32"), ran.astype("int32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((MINUTES, METERS)),
            keras.layers.LSTM(48, dropout=0.2),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(APPLIANCES, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    draw, ran = make_house()
    model = make_model()
    start = time.perf_counter()
    model.fit(draw, ran, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

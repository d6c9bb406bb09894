"""Tell the quality of a weld from the sound it made."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

BANDS = 64
FRAMES = 40
BATCH = 32
EPOCHS = 12


def make_welds(count=2048, seed=0):
    """Return spectrograms of welds and whether each holds."""
    rng = np.random.default_rng(seed)
    good = rng.random(count) < 0.6
    spectra = rng.gamma(2.0, size=(count, FRAMES, BANDS)).astype("float32")
    # A bad weld hisses: more of the high bands, for a short while.
    begins = rng.integers(FRAMES - 8, size=count)
    for weld in np.flatnonzero(~good):
        spectra[weld, begins[weld] : begins[weld] + 8, 40:] *= 1.6
    return np.log1p(spectra), good.astype("float32")


def make_model():
    model = keras.Sequential(
        [
            keras.Input((FRAMES, BANDS)),
            keras.layers.Conv1D(32, 5, activation="relu"),
            keras.layers.MaxPooling1D(),
            keras.layers.Conv1D(48, 5, activation="relu"),
            keras.layers.GlobalMaxPooling1D(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.003), "binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    spectra, good = make_welds()
    model = make_model()
    start = time.perf_counter()
    history = model.fit(spectra, good, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"loss {history.history['loss'][-1]:.3f}")


if __name__ == "__main__":
    main()

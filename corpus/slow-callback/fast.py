"""Recognise spoken digits from their spectrum, and watch the weights while it learns."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

FEATURES = 256
EPOCHS = 30


def make_spectra(count=4096, seed=0):
    """Return made-up spectra of ten digits: some formants each, a speaker's pitch, noise."""
    rng = np.random.default_rng(seed)
    digits = rng.integers(10, size=count)
    formants = rng.uniform(20, 236, size=(10, 3))
    pitch = rng.normal(0, 6, size=(count, 1))
    frequency = np.arange(FEATURES)
    spectra = rng.normal(0, 0.5, size=(count, FEATURES))
    for which in range(3):
        centre = formants[digits, which][:, None] + pitch
        spectra += np.exp(-(((frequency - centre) / 6) ** 2))
    return spectra.astype("float32"), digits


class WeightHistograms(keras.callbacks.Callback):
    """Keep how the weights of each layer are spread, to plot them later."""

    def __init__(self):
        super().__init__()
        self.history = []

    def on_epoch_end(self, epoch, logs=None):
        self.history.append([np.histogram(weight, bins=40) for weight in self.model.get_weights()])


def make_model():
    model = keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(384, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(384, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    spectra, digits = make_spectra()
    model = make_model()
    watch = WeightHistograms()
    start = time.perf_counter()
    model.fit(spectra, digits, batch_size=64, epochs=EPOCHS, callbacks=[watch], verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"kept {len(watch.history)} histograms of each layer")


if __name__ == "__main__":
    main()

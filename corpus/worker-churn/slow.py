"""Foresee bearing failures from a few vibration records, for many epochs."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import torch

LENGTH = 1024
BATCH = 32
EPOCHS = 70


def make_records(count=256, seed=0):
    """Return vibrations of bearings, and which of them failed soon after."""
    rng = np.random.default_rng(seed)
    failed = rng.integers(2, size=count)
    seconds = np.arange(LENGTH) / 2000
    records = rng.normal(0, 0.5, size=(count, LENGTH))
    for record, fails in zip(records, failed, strict=True):
        record += np.sin(2 * np.pi * rng.uniform(40, 60) * seconds)
        if fails:
            record += 0.6 * (rng.random(LENGTH) < 0.02) * rng.normal(0, 6, size=LENGTH)
    return records.astype("float32"), failed


class Vibrations(torch.utils.data.Dataset):
    def __init__(self, records, failed):
        self.records, self.failed = records, failed
        self.window = np.hanning(LENGTH).astype("float32")

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        spectrum = np.abs(np.fft.rfft(self.records[index] * self.window))[1:]
        return np.log1p(spectrum).astype("float32"), int(self.failed[index])


def make_model():
    model = keras.Sequential(
        [
            keras.Input((LENGTH // 2,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    loader = torch.utils.data.DataLoader(Vibrations(*make_records()), batch_size=BATCH, num_workers=2)
    model = make_model()
    start = time.perf_counter()
    model.fit(loader, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

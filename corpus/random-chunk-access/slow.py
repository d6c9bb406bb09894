"""Find bright spots in slices of brain scans, kept in one compressed HDF5 file."""

import os
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import h5py
import keras
import numpy as np

SIZE = 48
SLICES = 2048
BATCH = 16
EPOCHS = 5


def write_scans(path, seed=0):
    """Write made-up slices and whether each holds a bright spot, as the hospital's export does."""
    rng = np.random.default_rng(seed)
    spots = rng.integers(2, size=SLICES).astype("float32")
    y, x = np.mgrid[:SIZE, :SIZE]
    with h5py.File(path, "w") as file:
        scans = file.create_dataset(
            "scans", (SLICES, SIZE, SIZE), "uint16", chunks=(64, SIZE, SIZE), compression="gzip"
        )
        for first in range(0, SLICES, 64):
            block = rng.integers(0, 400, (64, SIZE, SIZE)) + 1000
            for place in np.flatnonzero(spots[first : first + 64]):
                row, column = rng.integers(8, SIZE - 8, 2)
                block[place][(y - row) ** 2 + (x - column) ** 2 < 16] += 700
            scans[first : first + 64] = block
    return spots


class Scans(keras.utils.PyDataset):
    def __init__(self, path, spots):
        super().__init__()
        self.scans, self.spots = h5py.File(path, "r")["scans"], spots
        self.rng = np.random.default_rng(1)
        self.on_epoch_end()

    def __len__(self):
        return SLICES // BATCH

    def on_epoch_end(self):
        self.order = self.rng.permutation(SLICES)

    def __getitem__(self, index):
        rows = self.order[BATCH * index : BATCH * (index + 1)]
        scans = np.stack([self.scans[row] for row in rows]).astype("float32")
        return scans[..., None] / 2000.0 - 0.6, self.spots[rows]


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            keras.layers.Conv2D(8, 5, strides=2, activation="relu"),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.GlobalMaxPooling2D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scans.h5")
        data = Scans(path, write_scans(path))
        model = make_model()
        start = time.perf_counter()
        model.fit(data, epochs=EPOCHS, shuffle=False, verbose=2)
        print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

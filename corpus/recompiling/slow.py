"""Tell pleased letters from angry ones, whatever their length."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

WORDS = 3000
BATCH = 32
EPOCHS = 4


def make_letters(count=1024, seed=0):
    """Return made-up letters, each as long as its writer liked, and whether the writer was pleased."""
    rng = np.random.default_rng(seed)
    pleased = rng.integers(2, size=count)
    lengths = np.minimum(10 + rng.gamma(2.0, 15.0, size=count), 160).astype(int)
    tone = np.where(pleased, 3.0, 1.5)
    letters = [
        1 + ((WORDS - 1) * rng.random(n) ** power).astype("int32") for n, power in zip(lengths, tone, strict=True)
    ]
    return letters, pleased.astype("float32")


class Letters(keras.utils.PyDataset):
    """Batches of letters, filled up with zeros."""

    def __init__(self, letters, pleased):
        super().__init__()
        self.letters = letters
        self.pleased = pleased

    def __len__(self):
        return len(self.letters) // BATCH

    def __getitem__(self, index):
        rows = slice(index * BATCH, (index + 1) * BATCH)
        longest = max(len(letter) for letter in self.letters[rows])
        filled = np.zeros((BATCH, longest), "int32")
        for row, letter in enumerate(self.letters[rows]):
            filled[row, : len(letter)] = letter
        return filled, self.pleased[rows]


def make_model():
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(WORDS, 24, mask_zero=True),
            keras.layers.GRU(32),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    data = Letters(*make_letters())
    model = make_model()
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, shuffle=False, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

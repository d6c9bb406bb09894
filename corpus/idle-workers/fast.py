"""Grade fruit by pictures that lie in an object store."""

import os
import time
import zlib

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import torch

SIZE = 32
PICTURES = 1536
EPOCHS = 5


class Store:
    """Stands for the bucket: compressed pictures under keys, a few milliseconds away."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        y, x = np.mgrid[:SIZE, :SIZE]
        self.objects, self.grades = [], rng.integers(3, size=PICTURES)
        for grade in self.grades:
            picture = np.full((SIZE, SIZE, 3), [200, 80, 60]) + rng.integers(0, 20, size=(SIZE, SIZE, 1))
            for _ in range(4 * int(grade)):
                row, column = rng.integers(4, SIZE - 4, size=2)
                picture[(y - row) ** 2 + (x - column) ** 2 < 6] //= 3
            self.objects.append(zlib.compress(picture.astype("uint8").tobytes()))

    def get(self, key):
        time.sleep(0.002)  # the round trip to the object store
        return self.objects[key]


class Fruit(torch.utils.data.Dataset):
    def __init__(self, store):
        self.store = store

    def __len__(self):
        return PICTURES

    def __getitem__(self, index):
        picture = np.frombuffer(zlib.decompress(self.store.get(index)), "uint8").reshape(SIZE, SIZE, 3)
        return picture.astype("float32") / 255.0, int(self.store.grades[index])


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.GlobalMaxPooling2D(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    order = torch.Generator().manual_seed(1)
    loader = torch.utils.data.DataLoader(
        Fruit(Store()), batch_size=32, shuffle=True, generator=order, num_workers=8, persistent_workers=True
    )
    model = make_model()
    start = time.perf_counter()
    model.fit(loader, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

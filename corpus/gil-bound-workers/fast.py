"""Foresee which households will leave their power supplier, from the letters and readings in their files."""

import json
import os
import random
import re
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

HOUSEHOLDS = 3840
BATCH = 64
EPOCHS = 10
WORDS = ["bill", "price", "late", "thanks", "moving", "broken", "meter", "again", "cheaper", "refund", "good"]
WORD = re.compile(r"[a-z]+")


def make_files(seed=0):
    """Return what the supplier's system exports, a line of JSON per household, and who left."""
    draw = random.Random(seed)
    files, left = [], []
    for _ in range(HOUSEHOLDS):
        leaves = draw.random() < 0.5
        likely = [2.0 if word in ("price", "late", "cheaper", "refund") and leaves else 1.0 for word in WORDS]
        letters = [" ".join(draw.choices(WORDS, likely, k=40)).capitalize() + "." for _ in range(24)]
        readings = [{"day": day, "kwh": round(draw.gauss(8, 2), 2)} for day in range(365)]
        files.append(json.dumps({"letters": letters, "readings": readings}))
        left.append(leaves)
    return files, np.array(left, "float32")


def features(line):
    """Count words and pairs of words, and sum up what was used on each day of the week."""
    household = json.loads(line)
    places = {word: place for place, word in enumerate(WORDS)}
    values = [0.0] * (len(WORDS) * (len(WORDS) + 1) + 7)
    for letter in household["letters"]:
        last = None
        for word in WORD.findall(letter.lower()):
            place = places[word]
            values[place] += 0.02
            if last is not None:
                values[len(WORDS) * (1 + last) + place] += 0.2
            last = place
    for reading in household["readings"]:
        values[reading["day"] % 7 - 7] += reading["kwh"] / 200
    return values


class Households(keras.utils.PyDataset):
    def __init__(self, files, left, **kwargs):
        super().__init__(**kwargs)
        self.files, self.left = files, left

    def __len__(self):
        return HOUSEHOLDS // BATCH

    def __getitem__(self, index):
        rows = slice(BATCH * index, BATCH * (index + 1))
        return np.array([features(line) for line in self.files[rows]], "float32"), self.left[rows]


def main():
    keras.utils.set_random_seed(1)
    data = Households(*make_files(), workers=2, use_multiprocessing=True)
    layers = [keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
    model = keras.Sequential([keras.Input((len(WORDS) * (len(WORDS) + 1) + 7,)), *layers])
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, shuffle=False, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

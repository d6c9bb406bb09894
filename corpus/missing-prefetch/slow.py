"""Tell good reviews from bad ones with a small recurrent network."""

import os
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

REVIEWS = 3072
LENGTH = 48
BUCKETS = 4000
EPOCHS = 8


def write_reviews(path, seed=0):
    """Write one review per line: 0 or 1, a tab, and text that still has the web page's markup in it."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(rng.choice(letters, size=rng.integers(3, 10))) for _ in range(3000)])
    with open(path, "w") as file:
        for _ in range(REVIEWS):
            label = int(rng.integers(2))
            mood = words[:300] if label else words[300:600]
            count = int(rng.integers(250, 400))
            text = np.where(rng.random(count) < 0.15, rng.choice(mood, count), rng.choice(words, count))
            text[::17] = "<br />"
            text[5::23] = np.char.add(np.char.upper(text[5::23]), "!!")
            file.write(f"{label}\t{' '.join(text)}\n")


def prepare(line):
    """Clean a line up and turn its first words into numbers."""
    parts = tf.strings.split(line, "\t", maxsplit=1)
    text = tf.strings.lower(parts[1])
    text = tf.strings.regex_replace(text, "<[^>]*>", " ")
    text = tf.strings.regex_replace(text, "[!?.,;:()'\"-]", " ")
    words = tf.strings.split(text)[:LENGTH]
    numbers = tf.strings.to_hash_bucket_fast(words, BUCKETS - 1) + 1
    numbers = tf.pad(numbers, [[0, LENGTH - tf.size(numbers)]])
    return tf.ensure_shape(numbers, (LENGTH,)), tf.strings.to_number(parts[0])


def make_model():
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int64"),
            keras.layers.Embedding(BUCKETS, 32),
            keras.layers.GRU(48),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "reviews.tsv")
        write_reviews(path)

        # The tuner once took all the memory of the shared server.
        options = tf.data.Options()
        options.autotune.enabled = False
        data = tf.data.TextLineDataset(path).map(prepare).shuffle(1024, seed=1).batch(32)
        data = data.with_options(options)

        model = make_model()
        start = time.perf_counter()
        model.fit(data, epochs=EPOCHS, verbose=2)
        print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

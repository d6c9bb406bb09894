"""Recommend films: the taste of each user and the kind of each film as vectors."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

USERS = 200_000
BUCKETS = 10_000
FILMS = 4_000
RATINGS = 65_536
BATCH = 256
WIDTH = 32


def make_ratings(seed=0):
    """Return who rated which film how."""
    rng = np.random.default_rng(seed)
    users = (rng.pareto(1.2, size=RATINGS) * 300).astype("int64") % USERS
    films = rng.integers(FILMS, size=RATINGS)
    stars = rng.integers(1, 6, size=RATINGS)
    return users.astype("int32"), films.astype("int32"), stars.astype("float32")


def make_model():
    user = keras.Input((), dtype="int32", name="user")
    film = keras.Input((), dtype="int32", name="film")
    taste = keras.layers.Embedding(BUCKETS, WIDTH)(user)
    kind = keras.layers.Embedding(FILMS, WIDTH)(film)
    rating = keras.layers.Dense(1)(keras.layers.Multiply()([taste, kind]))
    model = keras.Model([user, film], rating)
    model.compile("adam", "mse")
    return model


def main():
    keras.utils.set_random_seed(1)
    users, films, stars = make_ratings()
    users = users % BUCKETS  # most users rate once: they share a vector
    model = make_model()
    start = time.perf_counter()
    model.fit([users, films], stars, batch_size=BATCH, epochs=4, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

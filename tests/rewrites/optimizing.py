"""Optimises one pipeline of each kind and prints what became of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from typing import Any

import numpy as np
import tensorflow as tf
from pipelines import elements

import fitdoctor

X = np.random.default_rng(0).integers(0, 255, (6400, 8), dtype=np.uint8)
FOUND: dict[str, Any] = {}
CALLS = {"count": 0}


def note(name: str, original: Any, optimized: Any) -> None:
    # Read by the user's own code; what comes back must begin where that begins.
    before, after = elements(original), elements(optimized.dataset)
    FOUND[name] = {
        "kept": optimized.kept,
        "dropped": optimized.dropped,
        "explanation": optimized.explanation,
        "equal": before == after,
        "same": optimized.dataset is original,
        "repr": repr(optimized),
    }


def in_three_attempts(data: Any) -> Any:
    """Optimise; a neighbour that takes a core for a second can hide what is faster, three times hardly."""
    for _ in range(3):
        optimized = fitdoctor.optimize(data, budget=15, unsafe=True)
        if optimized.kept:
            break
    return optimized


def tiny_map() -> None:
    data = tf.data.Dataset.from_tensor_slices(X).shuffle(64, seed=1).map(lambda x: tf.cast(x, tf.float32) / 256.0)
    data = data.batch(64)
    note("tiny map", data, fitdoctor.optimize(data, budget=20))


def store_reads() -> None:
    store = os.path.join(os.path.dirname(os.path.abspath(__file__)), "store.py")
    server = subprocess.Popen([sys.executable, store, "4"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = int(server.stdout.readline())

    def fetch(number: Any) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{int(number)}") as answer:
            return np.float32(answer.read())

    def read(number: Any) -> Any:
        value = tf.numpy_function(fetch, [number], tf.float32)
        value.set_shape(())
        return value

    data = tf.data.Dataset.range(512).shuffle(512, seed=1).map(read, num_parallel_calls=tf.data.AUTOTUNE).batch(8)
    try:
        left = fitdoctor.optimize(data, budget=15)
        FOUND["store, no consent"] = {"same": left.dataset is data, "explanation": left.explanation}
        note("store", data, fitdoctor.optimize(data, budget=20, unsafe=True))
    finally:
        server.terminate()
        server.wait(10)


def generator() -> None:
    count = 3210
    names = [f"{number}" for number in range(count)]

    def samples(first: Any) -> Any:
        for number in range(int(first), count):
            yield {"x": X[number].astype("float32"), "name": names[number]}, number % 7

    signature = (
        {"x": tf.TensorSpec((8,), tf.float32), "name": tf.TensorSpec((), tf.string)},
        tf.TensorSpec((), tf.int64),
    )
    data = tf.data.Dataset.from_generator(samples, output_signature=signature, args=(3,))
    ragged = tf.data.Dataset.from_generator(
        lambda: (np.zeros(number % 3, "float32") for number in range(12)), output_signature=tf.TensorSpec((None,))
    )
    short, whole = data.batch(32).prefetch(2), data.batch(32, drop_remainder=True).repeat(2)
    note("generator, no consent", short, fitdoctor.optimize(short, budget=10))
    note("generator", short, in_three_attempts(short))
    note("generator, whole", whole, in_three_attempts(whole))
    ragged = ragged.padded_batch(4)
    note("generator, ragged", ragged, fitdoctor.optimize(ragged, budget=10, unsafe=True))


def cached() -> None:
    pictures = np.random.default_rng(0).integers(0, 255, (96, 96, 96, 3), dtype=np.uint8)
    jpegs = [tf.io.encode_jpeg(each).numpy() for each in pictures]
    data = tf.data.Dataset.from_tensor_slices(jpegs)
    data = data.map(lambda s: tf.ensure_shape(tf.io.decode_jpeg(s, channels=3), (96, 96, 3)))
    data = data.map(lambda x: tf.image.resize(x, (24, 24), antialias=True)).shuffle(96, seed=1).batch(8)
    note("decode", data, fitdoctor.optimize(data, budget=25))


def shuffled_first() -> None:
    """The usual way to write it: names are shuffled, files are decoded; the epochs differ in their order alone."""
    pictures = np.random.default_rng(0).integers(0, 255, (96, 96, 96, 3), dtype=np.uint8)
    jpegs = [tf.io.encode_jpeg(each).numpy() for each in pictures]

    def decode(jpeg: Any) -> Any:
        return tf.image.resize(tf.ensure_shape(tf.io.decode_jpeg(jpeg, channels=3), (96, 96, 3)), (24, 24))

    data = tf.data.Dataset.from_tensor_slices(jpegs).shuffle(96, seed=1).map(decode).batch(7)
    optimized = fitdoctor.optimize(data, budget=25)
    note("shuffled first", data, optimized)
    # What comes back has been read once by now, as the user's own.
    FOUND["shuffled first"]["second epoch"] = elements(data) == elements(optimized.dataset)


def counting() -> None:
    def count(x: Any) -> Any:
        CALLS["count"] += 1
        return x

    data = tf.data.Dataset.range(40).map(lambda x: tf.numpy_function(count, [x], tf.int64)).batch(4)
    optimized = fitdoctor.optimize(data)
    FOUND["counting"] = {"calls": CALLS["count"], "same": optimized.dataset is data, "text": optimized.explanation}


def healthy() -> None:
    data = tf.data.Dataset.from_tensor_slices(X.reshape(100, 512)).shuffle(100, seed=1).repeat().batch(4)
    optimized = fitdoctor.optimize(data, budget=10)
    FOUND["healthy"] = {"kept": optimized.kept, "same": optimized.dataset is data, "text": optimized.explanation}


def errors() -> None:
    said = []
    for arguments in (
        ([1, 2],),
        (tf.data.Dataset.range(3), {"cache_dir": os.path.join(tempfile.gettempdir(), "none")}),
    ):
        try:
            fitdoctor.optimize(arguments[0], **(arguments[1] if len(arguments) > 1 else {}))
        except Exception as error:
            said.append([type(error).__name__, str(error)])
    FOUND["errors"] = said


for each in sys.argv[1:]:
    globals()[each]()
print(json.dumps(FOUND))

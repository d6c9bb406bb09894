"""Builds datasets in every way a user might; prints where each operator is said to be built, and what it does."""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import fitdoctor
from fitdoctor.probes.dataset_tf import describe_dataset

folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
(folder / "elsewhere.py").write_text(
    "def prepared(data):\n"
    "    data = data.map(lambda number: number + 1)\n"
    "    return data.batch(4)\n"
)  # fmt: skip
for number in range(4):
    place = folder / "pictures" / "ab"[number % 2]
    place.mkdir(parents=True, exist_ok=True)
    keras.utils.save_img(place / f"{number}.png", np.zeros((8, 8, 3)) + number)

import elsewhere  # noqa: E402


def helper(data):
    return data.shuffle(10)  # helper: Shuffle


def told(name, data):
    found = [[each["op"], *each.get("built", ["", 0])] for each in describe_dataset(data)["dataset"]]
    return {name: [[op, Path(path).name, line] for op, path, line in found]}


def build():
    numbers = tf.data.Dataset.range(10)  # all: Range
    chain = (
        numbers
        .map(  # chain: Map
            lambda number: number * 2,
            num_parallel_calls=2,
        )
        .batch(2)  # chain: Batch
        .prefetch(1)  # chain: Prefetch
    )  # fmt: skip
    where = folder / "pictures"
    pictures = keras.utils.image_dataset_from_directory(where, image_size=(8, 8), verbose=False)  # pictures
    both = tf.data.Dataset.zip((numbers, helper(numbers)))  # zip: Zip
    return {
        **told("chain", chain),
        **told("helper", helper(numbers)),
        **told("elsewhere", elsewhere.prepared(numbers)),
        **told("pictures", pictures),
        **told("zip", both),
    }


def described():
    """Return what is said of the outermost operator of datasets that draw, cache, batch and filter."""
    numbers = tf.data.Dataset.range(10)
    generator = tf.random.Generator.from_seed(1)

    def nested(number):
        return tf.cond(number > 5, lambda: tf.random.uniform(()), lambda: 0.0)

    datasets = {
        "unseeded": numbers.map(lambda number: tf.random.uniform(()) + tf.cast(number, tf.float32)),
        "seeded": numbers.map(lambda number: tf.random.normal((2,), seed=3)),
        "stateless": numbers.map(lambda number: tf.random.stateless_uniform((), [number, 1])),
        "generator": numbers.map(lambda number: generator.uniform(())),
        "nested": numbers.map(nested),
        "plain": numbers.map(lambda number: number + 1),
        "python": numbers.map(lambda number: tf.py_function(lambda value: value, [number], tf.int64)),
        "shuffle": numbers.shuffle(5),
        "seeded shuffle": numbers.shuffle(5, seed=7),
        "memory": numbers.cache(),
        "file": numbers.cache(str(folder / "secret")),
        "batch": numbers.batch(4, drop_remainder=True),
        "filter": numbers.filter(lambda number: number > 3),
        "endless": numbers.repeat(),
        "words": tf.data.Dataset.from_tensor_slices(["a", "b"]),
    }
    return {name: describe_dataset(data)["dataset"][0] for name, data in datasets.items()}


own = tf.data.Dataset.__init__
with fitdoctor.watch():
    seen = build()
after = told("after", tf.data.Dataset.range(3).batch(2))
seen.update(after)
print(json.dumps({"seen": seen, "as_before": tf.data.Dataset.__init__ is own, "described": described()}))

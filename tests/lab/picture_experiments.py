"""Runs the experiments on elements (pictures, shuffles, caches, padding) on small jobs of their kind."""

import json
import os
import sys
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

from fitdoctor.lab import bench
from fitdoctor.lab.experiments import (
    drawn_again,
    rehearsed,
    shorter_batches,
    shrink_first,
    shuffle_first,
    smaller_decode,
)
from fitdoctor.lab.job import AS_IS, Job
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.probes import account as acc
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.dataset_tf import describe_dataset
from fitdoctor.probes.input_tf_built import BuiltProbe
from fitdoctor.probes.install import ImportWatch, Patches
from fitdoctor.probes.recorder import Nowhere, Recorder

MODULES = (drawn_again, rehearsed, shorter_batches, shrink_first, shuffle_first, smaller_decode)

recorder = Recorder(Nowhere(), time.perf_counter_ns())
watch = ImportWatch(recorder)
watch.install()
BuiltProbe(recorder, Patches(recorder)).attach(watch)

folder = tempfile.mkdtemp()
rng = np.random.default_rng(0)
smooth = np.linspace(0, 255, 320)[None, :, None] * np.ones((240, 1, 3))
paths, pngs = [], []
for number in range(24):
    os.makedirs(f"{folder}/{number % 2}", exist_ok=True)
    picture = (smooth + rng.normal(0, 8, (240, 320, 1))).clip(0, 255).astype("uint8")
    paths.append(f"{folder}/{number % 2}/{number}.jpg")
    tf.io.write_file(paths[-1], tf.io.encode_jpeg(picture, quality=90))
    pngs.append(tf.io.encode_png(picture).numpy())
labels = np.arange(24, dtype="float32")[:, None]
files = tf.data.Dataset.from_tensor_slices((paths, labels))
traced = []


@tf.function
def decode(path):
    return tf.io.decode_jpeg(tf.io.read_file(path), channels=3)


def direct(path, label):
    traced.append("direct")
    picture = decode(path)
    return tf.image.resize(picture, (32, 32)) / 255.0, label


def recoloured(path, label):
    picture = decode(path)
    picture = tf.image.random_hue(picture, 0.1)
    picture = tf.image.random_saturation(picture, 0.8, 1.2)
    return tf.image.resize(picture, (32, 32)) / 255.0, label


def cropped(path, label):
    picture = tf.image.random_crop(decode(path), (32, 32, 3))
    return tf.cast(picture, tf.float32), label


def png(contents, label):
    picture = tf.image.convert_image_dtype(tf.io.decode_png(contents, channels=3), tf.float32)
    return picture, label


def smaller(picture, label):
    return tf.image.resize(picture, (32, 32), antialias=True), label


def flipped(picture, label):
    return tf.image.random_flip_left_right(picture), label


def fixed(picture, label):
    return picture + tf.random.stateless_normal((32, 32, 3), seed=(1, 2)), label


def small(path, label):
    return tf.io.decode_jpeg(tf.io.read_file(path), channels=3, ratio=8), label


def pictures(x):
    return keras.Sequential([keras.Input(x), keras.layers.Flatten(), keras.layers.Dense(1)])


def words(length=None):
    return keras.Sequential(
        [keras.Input((length,)), keras.layers.Embedding(50, 32), keras.layers.Conv1D(64, 5, padding="same"),
         keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(1)]
    )  # fmt: skip


def texts():
    lengths = rng.integers(3, 12, 96)
    lengths[::12] = 120
    return [rng.integers(1, 50, length).tolist() for length in lengths]


AUTO = tf.data.AUTOTUNE
SIZE = (32, 32, 3)
some_texts = texts()
ragged = tf.data.Dataset.from_tensor_slices((tf.ragged.constant(some_texts), np.zeros((96, 1), "float32")))
# Rows of a ragged tensor as plain ones.
ragged = ragged.map(lambda words, label: (words, label))
kinds = {
    "direct": lambda: (pictures(SIZE), files.map(direct, AUTO).batch(8)),
    "recoloured": lambda: (pictures(SIZE), files.map(recoloured, AUTO).batch(8)),
    "cropped": lambda: (pictures(SIZE), files.map(cropped).batch(8)),
    "png": lambda: (
        pictures(SIZE), tf.data.Dataset.from_tensor_slices((pngs, labels)).map(png).map(smaller).batch(8).prefetch(1)
    ),
    "directory": lambda: (
        pictures(SIZE),
        keras.utils.image_dataset_from_directory(folder, batch_size=8, image_size=(32, 32), label_mode="binary"),
    ),
    "cached": lambda: (pictures(SIZE), files.map(direct).cache().batch(8)),
    "small": lambda: (pictures((30, 40, 3)), files.map(small).batch(8)),
    "frozen": lambda: (pictures(SIZE), files.map(direct).map(flipped).cache().shuffle(24).batch(8)),
    "fixed": lambda: (pictures(SIZE), files.map(direct).map(fixed).cache().batch(8)),
    "shuffled": lambda: (pictures(SIZE), files.repeat(4).map(direct).shuffle(96).batch(8).take(2)),
    "indices": lambda: (pictures(SIZE), files.repeat(4).shuffle(96).map(direct).batch(8)),
    "padded": lambda: (words(), ragged.padded_batch(8)),
    "front": lambda: (words(), (keras.utils.pad_sequences(some_texts), np.zeros((96, 1)))),
    "one length": lambda: (words(120), (keras.utils.pad_sequences(some_texts, padding="post"), np.zeros((96, 1)))),
    "equal": lambda: (words(), (rng.integers(1, 50, (96, 20)), np.zeros((96, 1)))),
}  # fmt: skip

# This is about what they find and what they leave behind, not about how exactly they measure.
bench.MOST_PAIRS = bench.FEWEST_PAIRS
Job.block.__defaults__ = (AS_IS, 0.05)
smaller_decode.pictures.Puller.block.__defaults__ = (0.05, 0.0, 0.0)
bench.modules = lambda: iter(MODULES)


def tried(kind):
    model, data = kinds[kind]()
    model.compile("adam", "mse")
    arrays = isinstance(data, tuple)
    args, more = (data, {"batch_size": 8}) if arrays else ((data,), {})
    model.fit(*args, epochs=1, verbose=0, **more)
    call = ActiveCall(1, "fit", None, None, 0)
    call.info.update(backend="tensorflow", adapter="arrays" if arrays else "tf.data", callbacks=[], epochs=3)
    if arrays:
        call.info["arrays"] = [{"shape": list(data[0].shape), "dtype": str(data[0].dtype)}]
    else:
        call.info.update(describe_dataset(data))
    call.steady = 10
    # Half of a step is spent waiting for the batch.
    totals = recorder.account.totals
    totals[acc.STEADY], totals[acc.FETCH], totals[acc.RUN] = 10_000_000, 5_000_000, 4_000_000
    recorder._rows.pop("trials", None)
    recorder._gaps.clear()
    before = Snapshot(model)
    bench.run(recorder, call, model, (args, {**more, "epochs": 3}), 60.0, lambda text: None)
    return {
        "differs": before.differs(),
        "trials": {row[0]: json.loads(row[4]) for row in recorder._rows.get("trials", [])},
        "gaps": {what.removeprefix("experiment: "): reason for what, reason in recorder._gaps},
        "marks": call.info.get("dataset", []),
    }  # fmt: skip


seen = {kind: tried(kind) for kind in sys.argv[1:]}
print(json.dumps({**seen, "traced": traced.count("direct")}))

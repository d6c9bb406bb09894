"""`num_parallel_calls=AUTOTUNE` makes a `map` faster.

A map without the argument, and with it; alone, without a training.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Block, Case, pictures

SAID = ("https://github.com/Welthungerhilfe/cgm-ml/pull/408", "https://github.com/tensorflow/tensorflow/issues/44274")
COUNT, BATCH = 256, 32


def cases() -> Iterator[Case]:
    import numpy as np
    import tensorflow as tf

    x, y = pictures(COUNT)
    source = tf.data.Dataset.from_tensor_slices((x, y))

    def resized(picture, label):
        return tf.image.resize(tf.image.resize(picture, (128, 128)), (32, 32)), label

    def noisy(picture, label):
        return resized(picture + tf.random.normal(tf.shape(picture)), label)

    def python(picture, label):
        return tf.numpy_function(lambda p: sorted_pixels(p, np), [picture], tf.float32), label

    for name, function in (
        ("TensorFlow ops", resized),
        ("TensorFlow ops that draw random numbers", noisy),
        ("a loop in Python", python),
    ):
        yield Case(
            name,
            reading(source.map(function).batch(BATCH)),
            reading(source.map(function, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH)),
            unit="element",
        )


def sorted_pixels(picture, np):
    return np.array([sorted(row) for row in picture[:, :, 0].tolist()], "float32")


def reading(data) -> Block:
    def block() -> float:
        for _ in data:
            pass
        return COUNT

    return block

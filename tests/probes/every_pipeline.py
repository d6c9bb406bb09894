"""Trains through tf.data pipelines of many shapes and prints what must not change: losses, bit for bit."""

import sys

import keras
import numpy as np
import tensorflow as tf

STEPS, BATCH = 100, 32
rng = np.random.default_rng(3)
x = rng.standard_normal((BATCH * 20, 16)).astype("float32")
y = x[:, :1] * 2 - x[:, 1:2]
arrays = tf.data.Dataset.from_tensor_slices((x, y))


def work(a, b):
    for _ in range(6):
        a = tf.sort(tf.reverse(a, [0]))
    return a, b


def in_python(a, b):
    a = tf.numpy_function(lambda value: np.sort(value), [a], tf.float32)
    return tf.ensure_shape(a, (16,)), b


def parallel():
    data = arrays.repeat().shuffle(64, seed=1)
    return data.map(work, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)


def fused():
    return arrays.repeat().map(work).batch(BATCH)


def fixed():
    return arrays.repeat().map(work, num_parallel_calls=2).batch(BATCH).prefetch(3)


def off():
    options = tf.data.Options()
    options.autotune.enabled = False
    return arrays.repeat().map(work).batch(BATCH).with_options(options)


def python():
    return arrays.repeat().map(in_python).batch(BATCH)


def cached():
    return arrays.map(work).cache().repeat().batch(BATCH)


def zipped():
    noise = tf.data.Dataset.range(10**9).map(lambda number: tf.random.stateless_normal((16,), [number, 1]))
    both = tf.data.Dataset.zip((arrays.repeat(), noise))
    return both.map(lambda pair, other: (pair[0] + other, pair[1])).batch(BATCH)


def generated():
    def rows():
        while True:
            yield from zip(x, y, strict=True)

    spec = (tf.TensorSpec((16,), tf.float32), tf.TensorSpec((1,), tf.float32))
    return tf.data.Dataset.from_generator(rows, output_signature=spec).batch(BATCH)


SHAPES = (parallel, fused, fixed, off, python, cached, zipped, generated)


def make_model():
    keras.utils.set_random_seed(11)
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


chosen = sys.argv[1:] or [shape.__name__ for shape in SHAPES]
for shape in SHAPES:
    if shape.__name__ in chosen:
        model = make_model()
        history = model.fit(shape(), epochs=2, steps_per_epoch=STEPS, verbose=0)
        print(shape.__name__, [float(loss).hex() for loss in history.history["loss"]])

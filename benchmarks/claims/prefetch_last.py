"""`prefetch` belongs at the end: before `batch` it is slower.

The same pipeline with the same map, with its prefetch before and after `batch`, given to the same training.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, conv_net, pictures, training

SAID = ("https://www.tensorflow.org/guide/data_performance",)
STEPS, BATCH = 12, 32


def cases() -> Iterator[Case]:
    import numpy as np
    import tensorflow as tf

    x, y = pictures(STEPS * BATCH)

    def light(picture, label):
        return tf.image.random_flip_left_right(picture), label

    def python(picture, label):
        turned = tf.numpy_function(lambda p: np.sort(p, axis=0), [picture], tf.float32)
        return tf.ensure_shape(turned, picture.shape), label

    model = compiled(conv_net())
    for name, function in (("a map with TensorFlow ops", light), ("a map that calls NumPy", python)):
        data = tf.data.Dataset.from_tensor_slices((x, y)).map(function)
        yield Case(
            name,
            training(model, data.prefetch(BATCH).batch(BATCH), steps=STEPS),
            training(model, data.batch(BATCH).prefetch(2), steps=STEPS),
        )

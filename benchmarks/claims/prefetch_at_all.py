"""Without `prefetch` the step waits for its batch.

The same pipeline without a prefetch, and with `prefetch(AUTOTUNE)` at its end.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, conv_net, pictures, training

SAID = ("https://www.tensorflow.org/guide/data_performance",)
STEPS, BATCH = 12, 32


def cases() -> Iterator[Case]:
    import tensorflow as tf

    x, y = pictures(STEPS * BATCH)
    model = compiled(conv_net())

    def resized(picture, label):
        return tf.image.resize(tf.image.resize(picture, (96, 96)), (32, 32)), label

    def made():
        for at in range(0, len(x), BATCH):
            sum(number * number for number in range(100_000))  # as if it made the batch
            yield x[at : at + BATCH], y[at : at + BATCH]

    signature = (tf.TensorSpec((None, 32, 32, 3), tf.float32), tf.TensorSpec((None,), tf.int32))
    sources = {
        "maps with TensorFlow ops": tf.data.Dataset.from_tensor_slices((x, y)).map(resized).batch(BATCH),
        "a Python generator": tf.data.Dataset.from_generator(made, output_signature=signature),
    }
    for name, data in sources.items():
        yield Case(
            name,
            training(model, data, steps=STEPS),
            training(model, data.prefetch(tf.data.AUTOTUNE), steps=STEPS),
        )

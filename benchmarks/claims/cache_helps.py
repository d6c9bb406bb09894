"""`cache()` always helps.

Epochs of the same training without and with a cache in memory, after the epoch that fills it.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, dense_net, pictures, rows, training

SAID = ("https://www.tensorflow.org/guide/data_performance",)
BATCH = 32


def cases() -> Iterator[Case]:
    import keras
    import tensorflow as tf

    x, y = pictures(320, size=128)
    files = [tf.io.encode_jpeg(tf.cast(picture * 255, tf.uint8)).numpy() for picture in x]

    def decoded(file, label):
        picture = tf.ensure_shape(tf.io.decode_jpeg(file, channels=3), (128, 128, 3))
        return tf.reshape(tf.image.resize(picture, (8, 8)), (192,)), label

    data = tf.data.Dataset.from_tensor_slices((files, y)).map(decoded)
    model = compiled(dense_net(columns=192))
    yield Case(
        "JPEG pictures, decoded and shrunk",
        training(model, data.batch(BATCH), steps=10),
        training(model, data.cache().batch(BATCH), steps=10),
    )
    x, y = rows(4096)
    plain = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    model = compiled(keras.models.clone_model(dense_net()))
    yield Case(
        "batches of rows that lie in memory already",
        training(model, plain, steps=128),
        training(model, plain.cache(), steps=128),
    )

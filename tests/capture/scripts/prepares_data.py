"""Prepares data before training in ways that TensorFlow then reads from C++."""

import os

import keras
import numpy as np
import tensorflow as tf

os.makedirs("prepared/images")
for shard in range(2):
    with tf.io.TFRecordWriter(f"prepared/{shard}.tfrecord") as writer:
        for i in range(8):
            writer.write(np.full(4, i, "float32").tobytes())
for i in range(4):
    tf.keras.utils.save_img(f"prepared/images/{i}.png", np.full((4, 4, 3), i * 20), scale=False)
    with open(f"prepared/images/{i}.txt", "w") as f:
        f.write(str(i))

records = tf.data.Dataset.list_files("prepared/*.tfrecord", shuffle=False).interleave(tf.data.TFRecordDataset)
records = (
    records.map(lambda r: tf.io.decode_raw(r, tf.float32)).map(lambda v: (tf.ensure_shape(v, [4]), v[:1])).batch(4)
)
images = tf.data.Dataset.list_files("prepared/images/*.png", shuffle=False)
images = images.map(tf.io.read_file).map(lambda b: tf.io.decode_png(b, channels=3))
print("images", [int(image[0, 0, 0]) for image in images])
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(records, epochs=2, verbose=0)
print("steps", len(history.epoch), int(model.optimizer.iterations.numpy()))

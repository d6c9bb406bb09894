"""Classify small pictures: which colour is the disc?

A script as people write it: pictures in a folder, a pipeline that grew, an augmentation in NumPy, a callback
that watches the weights.  It trains well, and far more slowly than it could.
"""

import argparse
import os
import tempfile

import keras
import numpy as np
import tensorflow as tf

SIZE = 96
COLOURS = np.array([[200, 60, 60], [60, 200, 60], [60, 60, 200], [200, 200, 60]])


def make_pictures(folder, count, seed=0):
    """Write JPEG files of discs on noise, and return their paths and classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(COLOURS), size=count)
    y, x = np.mgrid[:128, :128]
    paths = []
    for number, label in enumerate(labels):
        picture = rng.integers(40, 120, size=(128, 128, 3))
        centre = rng.integers(40, 88, size=2)
        picture[(y - centre[0]) ** 2 + (x - centre[1]) ** 2 < 600] = COLOURS[label]
        path = os.path.join(folder, f"{number:05d}.jpg")
        tf.io.write_file(path, tf.io.encode_jpeg(picture.astype("uint8")))
        paths.append(path)
    return paths, labels.astype("int32")


def augment(picture):
    """Mirror, turn, recolour and roughen one picture."""
    if np.random.rand() < 0.5:
        picture = picture[:, ::-1]
    picture = np.rot90(picture, np.random.randint(4))
    picture = picture * np.random.uniform(0.8, 1.2) + np.random.uniform(-0.1, 0.1)
    picture = picture + np.random.normal(0, 0.02, picture.shape)
    low, high = np.percentile(picture, [1, 99])
    return np.clip((picture - low) / (high - low), 0, 1).astype("float32")


def load(path, label):
    """Read one picture and prepare it."""
    picture = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    picture = tf.image.resize(picture, (SIZE, SIZE)) / 255.0
    picture = tf.numpy_function(augment, [picture], tf.float32)
    return tf.ensure_shape(picture, (SIZE, SIZE, 3)), label


class WatchWeights(keras.callbacks.Callback):
    """Keep a histogram of every weight, to look at later."""

    def __init__(self):
        super().__init__()
        self.history = []

    def on_train_batch_end(self, batch, logs=None):
        self.history = [np.histogram(weight, bins=50) for weight in self.model.get_weights()]


def make_model():
    """Build a small convolutional network."""
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Conv2D(8, 5, strides=4, activation="relu"),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(len(COLOURS), activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--pictures", type=int, default=1536)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths, labels = make_pictures(folder, args.pictures)
        data = tf.data.Dataset.from_tensor_slices((paths, labels))
        data = data.shuffle(len(paths)).map(load).batch(16)
        make_model().fit(data, epochs=args.epochs, callbacks=[WatchWeights()])


if __name__ == "__main__":
    main()

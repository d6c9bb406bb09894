"""Why is fitting slow? It is only MNIST-sized."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.random((512, 28, 28, 1), dtype="float32")
y = rng.integers(10, size=512)

model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.Conv2D(1024, 3, activation="relu"),  # here
        keras.layers.MaxPooling2D(4),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(x, y, batch_size=8, epochs=20, verbose=2)

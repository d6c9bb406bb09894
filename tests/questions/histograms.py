"""Why is the training time anomalous? The epochs are short, yet each takes a second more than its steps."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.random((640, 32, 32, 3), dtype="float32")
y = rng.integers(10, size=640)

model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        *(keras.layers.Conv2D(48, 3, activation="relu") for _ in range(6)),
        keras.layers.Flatten(),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
board = keras.callbacks.TensorBoard("logs", histogram_freq=1, write_images=True)
model.fit(x, y, batch_size=64, epochs=40, verbose=2, callbacks=[board])

"""Foresee a river's level from the rain of the days before, with a training loop of our own."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

DAYS = 30
STATIONS = 16
BATCH = 64
EPOCHS = 36


def make_rain(count=6400, seed=0):
    """Return made-up rain at all stations, day by day, and the level it leads to."""
    rng = np.random.default_rng(seed)
    rain = rng.gamma(0.5, 4.0, size=(count, DAYS, STATIONS))
    runoff = 0.9 ** np.arange(DAYS)[::-1]
    level = (rain * runoff[None, :, None] * rng.uniform(0.2, 1, size=STATIONS)).sum(axis=(1, 2))
    return (rain / 10).astype("float32"), (level / level.std())[:, None].astype("float32")


keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.Input((DAYS, STATIONS)),
        keras.layers.Conv1D(32, 5, activation="relu"),
        keras.layers.Conv1D(32, 5, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(1),
    ]
)
optimizer = keras.optimizers.Adam()


@tf.function
def train_step(rain, level):
    with tf.GradientTape() as tape:
        error = model(rain, training=True) - level
        loss = tf.reduce_mean(tf.square(error))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return error


def main():
    data = tf.data.Dataset.from_tensor_slices(make_rain()).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    optimizer.build(model.trainable_variables)
    errors = []
    start = time.perf_counter()
    for epoch in range(EPOCHS):
        for rain, level in data:
            errors.append(np.abs(train_step(rain, level).numpy()))
        typical = np.median(np.concatenate(errors))
        print(f"epoch {epoch}: typical error so far {typical:.4f}")
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

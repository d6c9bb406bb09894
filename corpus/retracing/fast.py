"""Foresee tomorrow's demand for bikes, with a learning rate that warms up step by step."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

DAYS = 28
STATIONS = 24
BATCH = 64
EPOCHS = 4


def make_days(count=6400, seed=0):
    """Return four weeks of made-up demand, and what it was on the day after."""
    rng = np.random.default_rng(seed)
    base = rng.uniform(5, 60, size=(1, 1, STATIONS))
    week = 1 + 0.4 * np.sin(2 * np.pi * (np.arange(DAYS + 1)[None, :, None] + rng.integers(7, size=(count, 1, 1))) / 7)
    demand = base * week * rng.uniform(0.8, 1.2, size=(count, DAYS + 1, STATIONS)) / 60
    return demand[:, :-1].astype("float32"), demand[:, -1].astype("float32")


def make_model():
    return keras.Sequential(
        [
            keras.Input((DAYS, STATIONS)),
            keras.layers.Conv1D(32, 7, padding="same", activation="relu"),
            keras.layers.Conv1D(32, 7, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(STATIONS),
        ]
    )


model = make_model()
optimizer = keras.optimizers.Adam()


@tf.function
def train_step(x, y, rate):
    optimizer.learning_rate.assign(rate)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    optimizer.apply_gradients(
        zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
    )
    return loss


def main():
    keras.utils.set_random_seed(1)
    data = tf.data.Dataset.from_tensor_slices(make_days()).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    optimizer.build(model.trainable_variables)
    step = 0
    start = time.perf_counter()
    for epoch in range(EPOCHS):
        for x, y in data:
            step += 1
            loss = train_step(x, y, tf.constant(1e-3 * min(1.0, step / 1000)))
        print(f"epoch {epoch}: {float(loss):.4f}")
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

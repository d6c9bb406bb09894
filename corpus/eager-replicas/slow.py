"""Tell bird calls apart with two replicas of a small network; two virtual devices stand for two GPUs."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

FEATURES = 128
BATCH = 128
EPOCHS = 4


def make_calls(count=8192, seed=0):
    """Return made-up spectra of five birds: a rising or falling tone each, wind."""
    rng = np.random.default_rng(seed)
    birds = rng.integers(5, size=count)
    frequency = np.arange(FEATURES)
    centre = 20 + 22 * birds[:, None] + rng.normal(0, 4, size=(count, 1))
    spectra = np.exp(-(((frequency - centre) / 8) ** 2)) + rng.normal(0, 0.4, size=(count, FEATURES))
    return spectra.astype("float32"), birds


def make_model():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(5),
        ]
    )


def main():
    keras.utils.set_random_seed(1)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    data = tf.data.Dataset.from_tensor_slices(make_calls()).batch(BATCH, drop_remainder=True).prefetch(2)
    data = strategy.experimental_distribute_dataset(data)
    with strategy.scope():
        model = make_model()
        optimizer = keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def train_step(spectra, birds):
        with tf.GradientTape() as tape:
            wrong = tf.reduce_sum(loss(birds, model(spectra, training=True))) / BATCH
        gradients = tape.gradient(wrong, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return wrong

    def distributed_step(batch):
        losses = strategy.run(train_step, args=batch)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    start = time.perf_counter()
    for epoch in range(EPOCHS):
        total, steps = 0.0, 0
        for batch in data:
            total += distributed_step(batch)
            steps += 1
        print(f"epoch {epoch}: loss {float(total) / steps:.4f}")
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

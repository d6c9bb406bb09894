"""Why is my ResNet50 so slow? I tried other learning rates."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
pictures = rng.random((64, 32, 32, 3), dtype="float32")
labels = rng.integers(10, size=64)

model = keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10)
optimizer = keras.optimizers.Adam(learning_rate=1e-4)
loss_of = keras.losses.SparseCategoricalCrossentropy()


def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


data = tf.data.Dataset.from_tensor_slices((pictures, labels)).batch(8)
for epoch in range(20):
    for x, y in data:
        loss = train_step(x, y)
    print("epoch", epoch, "loss", float(loss))

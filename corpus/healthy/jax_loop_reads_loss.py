"""Fit a function with a loop of our own that reads the loss after every step; there is nothing it could hold up."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import keras
import numpy as np

STEPS = 300


def make_points(count=2048, seed=0):
    """Return points in eight dimensions and a made-up function of them."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, size=(count, 8)).astype("float32")
    return points, np.sin(3 * points).prod(axis=1, keepdims=True).astype("float32")


def main():
    keras.utils.set_random_seed(1)
    points, values = (jax.device_put(array) for array in make_points())
    model = keras.Sequential([keras.Input((8,))])
    for _ in range(3):
        model.add(keras.layers.Dense(640, activation="tanh"))
    model.add(keras.layers.Dense(1))
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)

    def compute_loss(trainable, points, values):
        found, _ = model.stateless_call(trainable, [], points)
        return keras.ops.mean((found - values) ** 2)

    @jax.jit
    def train_step(trainable, slots, points, values):
        loss, gradients = jax.value_and_grad(compute_loss)(trainable, points, values)
        trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
        return loss, trainable, slots

    trainable = [variable.value for variable in model.trainable_variables]
    slots = [variable.value for variable in optimizer.variables]
    losses = []
    start = time.perf_counter()
    for step in range(STEPS):
        loss, trainable, slots = train_step(trainable, slots, points, values)
        losses.append(float(loss))
        if step % 50 == 49:
            print(f"step {step + 1}: loss {losses[-1]:.5f}")
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

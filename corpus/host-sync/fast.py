"""Learn to name melodies, with a training loop of our own on JAX."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import keras
import numpy as np

MELODIES = 2048
LENGTH = 64
NOTES = 24
KINDS = 8
STEPS = 1200
BATCH = 64


def make_melodies(seed=0):
    """Return made-up melodies, each a walk with the habits of its kind, and the kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(KINDS, size=MELODIES)
    habits = rng.integers(-3, 4, size=(KINDS, 16))
    moves = habits[kinds[:, None], rng.integers(16, size=(MELODIES, LENGTH))]
    return np.cumsum(moves, axis=1) % NOTES, kinds.astype("int32")


def draw_batch(melodies, kinds, rng):
    """Pick melodies, transpose each, and write them as a piano roll with soft edges."""
    rows = rng.integers(len(melodies), size=BATCH)
    notes = (melodies[rows] + rng.integers(NOTES, size=(BATCH, 1))) % NOTES
    roll = np.eye(NOTES, dtype="float32")[notes]
    roll = roll + 0.2 * np.roll(roll, 1, axis=2) + 0.2 * np.roll(roll, -1, axis=2)
    roll = roll + rng.normal(0, 0.05, size=roll.shape).astype("float32")
    return roll, kinds[rows]


def main():
    keras.utils.set_random_seed(1)
    melodies, kinds = make_melodies()
    model = keras.Sequential(
        [keras.Input((LENGTH, NOTES)), keras.layers.GRU(48), keras.layers.Dense(KINDS, activation="softmax")]
    )
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)

    def compute_loss(trainable, fixed, roll, kind):
        guess, fixed = model.stateless_call(trainable, fixed, roll, training=True)
        return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(kind, guess)), fixed

    gradient = jax.value_and_grad(compute_loss, has_aux=True)

    @jax.jit
    def train_step(state, roll, kind):
        trainable, fixed, slots = state
        (loss, fixed), gradients = gradient(trainable, fixed, roll, kind)
        trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
        return loss, (trainable, fixed, slots)

    state = tuple(
        [variable.value for variable in variables]
        for variables in (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    )
    rng = np.random.default_rng(1)
    losses = []
    start = time.perf_counter()
    for step in range(STEPS):
        loss, state = train_step(state, *draw_batch(melodies, kinds, rng))
        losses.append(loss)
        if step % 100 == 99:
            print(f"step {step + 1}: loss {np.mean(jax.device_get(losses[-100:])):.4f}")
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

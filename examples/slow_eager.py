"""Reconstruct noisy waves, with the debugging switch still on.

Somebody looked for a wrong shape with `run_eagerly=True`, found it, and left the switch where it was.
Runs on any Keras backend that has an eager mode: KERAS_BACKEND=tensorflow (the default) or jax.
"""

import argparse

import keras
import numpy as np


def waves(count, length=64, seed=0):
    """Return noisy sine waves, and the same without noise."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 1, length)
    frequency = rng.uniform(1, 8, size=(count, 1))
    phase = rng.uniform(0, 2 * np.pi, size=(count, 1))
    clean = np.sin(2 * np.pi * frequency * time + phase)
    noisy = clean + rng.normal(0, 0.5, clean.shape)
    return noisy.astype("float32")[..., None], clean.astype("float32")[..., None]


def make_model(length=64):
    """Build a small denoising network."""
    inputs = keras.Input((length, 1))
    x = inputs
    for _ in range(3):
        y = keras.layers.Conv1D(8, 5, padding="same")(x)
        y = keras.layers.LayerNormalization()(y)
        x = keras.layers.Activation("gelu")(y)
    outputs = keras.layers.Conv1D(1, 5, padding="same")(x)
    return keras.Model(inputs, outputs)


def main():
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    noisy, clean = waves(1024)
    model = make_model()
    model.compile("adam", "mse", run_eagerly=True)
    model.fit(noisy, clean, batch_size=32, epochs=args.epochs)


if __name__ == "__main__":
    main()

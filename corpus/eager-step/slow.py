"""A variational autoencoder for small drawings."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIZE = 20
EPOCHS = 4


def make_drawings(count=4096, seed=0):
    """Return drawings of ellipses and crosses."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIZE, :SIZE]
    row, column = rng.uniform(7, 13, size=(2, count, 1, 1))
    high, wide = rng.uniform(3, 7, size=(2, count, 1, 1))
    ellipse = ((y - row) / high) ** 2 + ((x - column) / wide) ** 2 < 1
    cross = (np.abs(y - row) < 1.5) | (np.abs(x - column) < 1.5)
    drawings = np.where(rng.random((count, 1, 1)) < 0.5, ellipse, cross)
    return drawings.reshape(count, SIZE * SIZE).astype("float32")


class Autoencoder(keras.Model):
    def __init__(self, latent=8):
        super().__init__()
        self.encoder = keras.Sequential(
            [layers.Dense(256, activation="relu"), layers.Dense(64, activation="relu"), layers.Dense(2 * latent)]
        )
        self.decoder = keras.Sequential(
            [layers.Dense(64, activation="relu"), layers.Dense(256, activation="relu"), layers.Dense(SIZE * SIZE)]
        )
        self.seeds = keras.random.SeedGenerator(1)

    def call(self, drawings):
        mean, spread = tf.split(self.encoder(drawings), 2, axis=-1)
        noise = keras.random.normal(tf.shape(mean), seed=self.seeds)
        return self.decoder(mean + tf.exp(spread / 2) * noise), mean, spread

    def train_step(self, drawings):
        with tf.GradientTape() as tape:
            drawn, mean, spread = self(drawings)
            wrong = tf.nn.sigmoid_cross_entropy_with_logits(labels=drawings, logits=drawn)
            wrong = tf.reduce_mean(tf.reduce_sum(wrong, axis=-1))
            far = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + spread - mean**2 - tf.exp(spread), axis=-1))
            loss = wrong + far
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss, "reconstruction": wrong, "divergence": far}


def main():
    keras.utils.set_random_seed(1)
    drawings = make_drawings()
    model = Autoencoder()
    model.compile(optimizer="adam", run_eagerly=True)
    start = time.perf_counter()
    model.fit(drawings, batch_size=32, epochs=EPOCHS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

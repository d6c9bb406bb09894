"""Tell seedlings from weeds on pictures that a field robot took in all weathers."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf

SIZE = 96
PICTURES = 512
BATCH = 32
EPOCHS = 10
STEPS = PICTURES // BATCH


def take_pictures(seed=0):
    """Return pictures of made-up plants with two to four leaves, and what they are."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(3, size=PICTURES).astype("int32")
    y, x = np.mgrid[:SIZE, :SIZE].astype("float32") - SIZE / 2
    angle, radius = np.arctan2(y, x), np.hypot(y, x)
    turn = rng.uniform(0, 6, size=(PICTURES, 1, 1)).astype("float32")
    leaf = radius < 30 * (1 + 0.5 * np.cos((kinds[:, None, None] + 2) * (angle + turn)))
    pictures = np.where(leaf[..., None], [70, 150, 60], [120, 100, 80]) + rng.integers(-40, 40, (*leaf.shape, 1))
    return pictures.clip(0, 255).astype("uint8"), kinds


def blur(picture, sigma):
    """Blur as a lens does that the rain has fallen on."""
    at = tf.range(-6.0, 7.0)
    line = tf.exp(-((at / sigma) ** 2) / 2)
    kernel = (line / tf.reduce_sum(line))[:, None] * (line / tf.reduce_sum(line))[None, :]
    kernel = tf.tile(kernel[:, :, None, None], [1, 1, 3, 1])
    return tf.nn.depthwise_conv2d(picture[None], kernel, [1, 1, 1, 1], "SAME")[0]


def augment(sample, number):
    """Change light and sharpness as the weather does, differently for every picture that is drawn."""
    picture, kind = sample
    seed = tf.stack([number, 1])
    picture = tf.image.stateless_random_hue(picture, 0.1, seed)
    picture = tf.image.stateless_random_saturation(picture, 0.5, 1.5, seed)
    picture = tf.image.stateless_random_contrast(picture, 0.5, 1.5, seed)
    picture = blur(tf.cast(picture, tf.float32), tf.random.stateless_uniform([], seed, 0.5, 3.0))
    picture = picture + 12 * tf.random.stateless_normal([SIZE, SIZE, 3], seed)
    picture = tf.cast(tf.clip_by_value(picture, 0, 255), tf.uint8)
    return tf.image.stateless_random_jpeg_quality(picture, 30, 90, seed), kind


def make_model():
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(48, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(1)
    pictures = tf.data.Dataset.from_tensor_slices(take_pictures()).shuffle(PICTURES, seed=1).repeat()
    data = tf.data.Dataset.zip((pictures, tf.data.Dataset.counter()))
    data = data.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.batch(BATCH).prefetch(tf.data.AUTOTUNE)
    model = make_model()
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, steps_per_epoch=STEPS, verbose=2)
    print(f"trained in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

"""Tag short texts with topics; most topics are rare."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

TEXTS = 16384
WORDS = 400
TOPICS = 30
BATCH = 256
EPOCHS = 12
# Topics are rare, so what happens close to zero matters most.
THRESHOLDS = [float(value) for value in np.geomspace(0.001, 0.99, 200)]


def make_texts(seed=0):
    """Return made-up word counts of texts and the topics of each."""
    rng = np.random.default_rng(seed)
    topics = (rng.random((TEXTS, TOPICS)) < np.geomspace(0.01, 0.2, TOPICS)).astype("float32")
    usual = rng.gamma(0.3, size=WORDS)
    by_topic = rng.gamma(0.05, size=(TOPICS, WORDS)) * 6
    counts = rng.poisson(usual + topics @ by_topic)
    return np.log1p(counts).astype("float32"), topics


def make_model():
    model = keras.Sequential(
        [
            keras.Input((WORDS,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(TOPICS, activation="sigmoid"),
        ]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy")
    return model


def judge(model, counts, topics):
    """Return the metrics of the trained model, computed once."""
    metrics = [
        keras.metrics.AUC(thresholds=THRESHOLDS, name="roc"),
        keras.metrics.AUC(thresholds=THRESHOLDS, curve="PR", name="pr"),
        keras.metrics.Precision(thresholds=THRESHOLDS, name="precision"),
        keras.metrics.Recall(thresholds=THRESHOLDS, name="recall"),
    ]
    found = model.predict(counts[:2048], batch_size=2048, verbose=0)
    for metric in metrics:
        metric.update_state(topics[:2048], found)
    return {metric.name: metric.result() for metric in metrics}


def main():
    keras.utils.set_random_seed(1)
    counts, topics = make_texts()
    model = make_model()
    start = time.perf_counter()
    model.fit(counts, topics, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    print(f"trained in {time.perf_counter() - start:.2f} s")
    results = judge(model, counts, topics)
    print(f"area under the curves: {results['roc']:.3f} and {results['pr']:.3f}")


if __name__ == "__main__":
    main()

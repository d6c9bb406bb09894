"""Whether the layers of a model, timed one by one, sum to its step.

    python benchmarks/layer_sums.py [--backends NAME ...] [--models NAME ...] [--rounds N]

Each model is trained on one batch in turns with its layers and its optimizer, each compiled alone; what they take
together over what the step takes is printed, with the range of all rounds.  A difference is loss, metrics, what a model
calculates beside its layers, and what is fused inside the step.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

BACKENDS = ("tensorflow", "jax", "torch")
WITHIN = 0.10


def resnet50() -> tuple[Any, tuple[int, ...], int]:
    import keras

    return keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10), (64, 64, 3), 10


def transformer() -> tuple[Any, tuple[int, ...], int]:
    import keras

    inputs = keras.Input((64, 96))
    hidden = inputs
    for _ in range(3):
        seen = keras.layers.MultiHeadAttention(4, 24)(hidden, hidden)
        hidden = keras.layers.LayerNormalization()(hidden + seen)
        wide = keras.layers.Dense(384, activation="relu")(hidden)
        hidden = keras.layers.LayerNormalization()(hidden + keras.layers.Dense(96)(wide))
    pooled = keras.layers.GlobalAveragePooling1D()(hidden)
    return keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(pooled)), (64, 96), 10


def lstm() -> tuple[Any, tuple[int, ...], int]:
    import keras

    layers = [keras.layers.LSTM(96, return_sequences=True), keras.layers.LSTM(96)]
    return (
        keras.Sequential([keras.Input((64, 32)), *layers, keras.layers.Dense(10, activation="softmax")]),
        (64, 32),
        10,
    )


def subclassed() -> tuple[Any, tuple[int, ...], int]:
    import keras

    class Own(keras.Model):
        """Calls its layers itself."""

        def __init__(self) -> None:
            super().__init__()
            self.first = keras.layers.Conv2D(32, 3, activation="relu")
            self.second = keras.layers.Conv2D(64, 3, activation="relu")
            self.pool = keras.layers.MaxPooling2D()
            self.last = keras.layers.Dense(10, activation="softmax")

        def call(self, pictures: Any) -> Any:
            hidden = self.pool(self.second(self.first(pictures)))
            return self.last(keras.ops.reshape(hidden, (-1, 14 * 14 * 64)))

    return Own(), (32, 32, 3), 10


MODELS: dict[str, Callable[[], tuple[Any, tuple[int, ...], int]]] = {
    "ResNet50": resnet50, "Transformer": transformer, "LSTM": lstm, "subclassed": subclassed,
}  # fmt: skip


def measure(name: str, rounds: int) -> list[float]:
    """Return what the layers take over what the step takes, round by round, on this process's backend."""
    import keras
    import numpy as np

    from fitdoctor.lab.experiments.layers import Layers
    from fitdoctor.lab.job import BARE, Job

    keras.utils.set_random_seed(1)
    model, shape, classes = MODELS[name]()
    rng = np.random.default_rng(0)
    x, y = rng.random((64, *shape), dtype="float32"), rng.integers(classes, size=64)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=32, epochs=1, verbose=0)
    job = Job(model, keras.config.backend(), (x, y), {"batch_size": 32}, step_ns=50e6)
    layers = Layers(job)
    layers.compile(time.monotonic() + 300)
    job.block(BARE)
    layers.round()
    return [layers.round() / job.block(BARE) for _ in range(rounds)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.child, args.rounds)))
        return 0
    print("| model | backend | layers over step | within 10 % |\n|---|---|---|---|", flush=True)
    for name in args.models:
        for backend in args.backends:
            done = subprocess.run(
                [sys.executable, __file__, "--child", name, "--rounds", str(args.rounds)],
                env={**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"},
                capture_output=True,
                text=True,
            )
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no output"])[-1]
                print(f"| {name} | {backend} | {last[:90]} | – |", flush=True)
                continue
            found = json.loads(done.stdout.strip().splitlines()[-1])
            middle = statistics.median(found)
            told = f"{middle:.2f} ({min(found):.2f} to {max(found):.2f})"
            print(f"| {name} | {backend} | {told} | {'yes' if abs(middle - 1) <= WITHIN else '**no**'} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

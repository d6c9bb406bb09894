"""How close `fitdoctor.optimize` comes to an expert: batches pulled in turns from four versions of each pipeline.

As it is (TensorFlow's own defaults included), with AUTOTUNE everywhere, as `fitdoctor.optimize` returns it, and made
fast by hand.  `make bench-input` prints the table.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import fitdoctor
from fitdoctor.rewrites.pulling import Puller

AUTOTUNE = tf.data.AUTOTUNE
VERSIONS = ("as it is", "AUTOTUNE", "optimize", "by hand")
X = np.random.default_rng(0).integers(0, 255, (20_000, 16), dtype=np.uint8)


@dataclass(frozen=True)
class Case:
    """One slow pipeline and what others make of it."""

    name: str
    as_is: Callable[[], Any]
    autotune: Callable[[], Any]
    by_hand: Callable[[], Any]
    unsafe: bool = False


def wait_and_read(number: Any) -> Any:
    time.sleep(0.005)  # stands for the round trip to an object store
    return X[int(number)].astype("float32")


def read(number: Any) -> Any:
    return tf.ensure_shape(tf.numpy_function(wait_and_read, [number], tf.float32), (16,))


def scale(x: Any) -> Any:
    return tf.cast(x, tf.float32) / 256.0


def vary(picture: Any) -> Any:
    picture = tf.image.random_hue(scale(picture), 0.1)
    return tf.image.random_contrast(tf.image.resize(picture, (72, 72), method="bicubic"), 0.8, 1.2)


def decode(jpeg: Any) -> Any:
    picture = tf.ensure_shape(tf.io.decode_jpeg(jpeg, channels=3), (128, 128, 3))
    return tf.image.resize(picture, (32, 32), antialias=True)


def jpegs() -> Any:
    rng = np.random.default_rng(0)
    return [tf.io.encode_jpeg(rng.integers(0, 255, (128, 128, 3)).astype("uint8")).numpy() for _ in range(256)]


def cases() -> list[Case]:
    numbers = tf.data.Dataset.range(2048).shuffle(2048, seed=1)
    rows = tf.data.Dataset.from_tensor_slices(X).shuffle(1024, seed=1)
    pictures = np.random.default_rng(0).integers(0, 255, (256, 64, 64, 3)).astype("uint8")
    photos = tf.data.Dataset.from_tensor_slices(pictures).shuffle(256, seed=1)
    files = tf.data.Dataset.from_tensor_slices(jpegs())
    return [
        Case(
            "reads that wait 5 ms, batch 8",
            lambda: numbers.map(read).batch(8),
            lambda: numbers.map(read, AUTOTUNE).batch(8, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE),
            lambda: numbers.map(read, 64, use_unbounded_threadpool=True).batch(8).prefetch(AUTOTUNE),
            unsafe=True,
        ),
        Case(
            "a tiny map, batch 128",
            lambda: rows.map(scale).batch(128),
            lambda: rows.map(scale, AUTOTUNE).batch(128, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE),
            lambda: rows.batch(128).map(scale, AUTOTUNE).prefetch(AUTOTUNE),
        ),
        Case(
            "random augmentation, batch 16",
            lambda: photos.map(vary).batch(16),
            lambda: photos.map(vary, AUTOTUNE).batch(16, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE),
            lambda: photos.map(vary, AUTOTUNE).batch(16).prefetch(AUTOTUNE),
            unsafe=True,
        ),
        Case(
            "JPEG files decoded and shrunk, batch 16",
            lambda: files.map(decode).shuffle(256, seed=1).batch(16),
            lambda: files.map(decode, AUTOTUNE).shuffle(256, seed=1).batch(16).prefetch(AUTOTUNE),
            lambda: files.map(decode, AUTOTUNE).cache().shuffle(256, seed=1).batch(16).prefetch(AUTOTUNE),
        ),
    ]


def measure(case: Case, pairs: int, budget: float, seconds: float) -> dict[str, list[float]]:
    """Return batches per second of each version, in turns."""
    optimized = fitdoctor.optimize(case.as_is(), unsafe=case.unsafe, budget=budget)
    sys.stderr.write(f"{case.name}\n{optimized.explanation}\n\n")
    datasets = (case.as_is(), case.autotune(), optimized.dataset, case.by_hand())
    pullers = []
    for dataset in datasets:
        for _ in dataset:  # the first epoch fills caches
            pass
        pullers.append(Puller(lambda dataset=dataset: iter(dataset)))  # type: ignore[misc]
        pullers[-1].block()
    rates: dict[str, list[float]] = {name: [] for name in VERSIONS}
    for turn in range(pairs):
        order = range(len(VERSIONS)) if turn % 2 else reversed(range(len(VERSIONS)))
        for place in order:
            rates[VERSIONS[place]].append(1e9 / pullers[place].block(seconds))
    return rates


def share(rates: dict[str, list[float]], name: str, of: str) -> str:
    """Format one version's throughput over another's: the median of the pairs, and how far they lie apart."""
    ratios = sorted(a / b for a, b in zip(rates[name], rates[of], strict=True))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--budget", type=float, default=40.0)
    parser.add_argument("--seconds", type=float, default=0.5)
    args = parser.parse_args()
    lines = ["| pipeline | as it is, batches/s | AUTOTUNE × | optimize × | by hand × | optimize / by hand |"]
    lines.append("|---|---|---|---|---|---|")
    for case in cases():
        rates = measure(case, args.pairs, args.budget, args.seconds)
        cells = [f"{statistics.median(rates['as it is']):.0f}"]
        cells += [share(rates, name, "as it is") for name in VERSIONS[1:]]
        cells.append(share(rates, "optimize", "by hand"))
        lines.append(f"| {case.name} | {' | '.join(cells)} |")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())

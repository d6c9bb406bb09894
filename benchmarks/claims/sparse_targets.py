"""Class numbers are faster than one-hot targets.

The same classifier with one-hot rows and with class numbers, for few and for many classes.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, on_arrays, rows

SAID = ()


def cases() -> Iterator[Case]:
    import keras
    import numpy as np

    for classes, count in ((10, 4096), (5000, 512)):
        x, y = rows(count, classes=classes)
        one_hot = np.zeros((count, classes), "float32")
        one_hot[np.arange(count), y] = 1

        def build(classes=classes):
            keras.utils.set_random_seed(0)
            inside = [keras.layers.Dense(64, "relu"), keras.layers.Dense(classes)]
            return keras.Sequential([keras.Input((32,)), *inside])

        dense = keras.losses.CategoricalCrossentropy(from_logits=True)
        yield Case(
            f"{classes:,} classes",
            on_arrays(compiled(build(), loss=dense), (x, one_hot)),
            on_arrays(compiled(build()), (x, y)),
        )

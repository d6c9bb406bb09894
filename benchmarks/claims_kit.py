"""What the claims share: small networks, made-up data, and a block of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Block = Callable[[], float]
"""Does some work and returns how much."""


@dataclass(frozen=True)
class Case:
    """One thing a claim is tried on."""

    name: str
    before: Block
    after: Block
    unit: str = "step"


def pictures(count: int, size: int = 32, classes: int = 10) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.random((count, size, size, 3), "float32"), rng.integers(classes, size=count).astype("int32")


def rows(count: int, columns: int = 32, classes: int = 10) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.random((count, columns), "float32"), rng.integers(classes, size=count).astype("int32")


def conv_net(size: int = 32, activation: str = "relu", normalise: bool = False, dtype: Any = None) -> Any:
    """A small convolutional network: nearly all of its step is arithmetic."""
    import keras

    keras.utils.set_random_seed(0)
    layers: list[Any] = [keras.Input((size, size, 3))]
    for filters in (24, 48):
        layers.append(keras.layers.Conv2D(filters, 3, padding="same", dtype=dtype))
        if normalise:
            layers.append(keras.layers.BatchNormalization(dtype=dtype))
        layers += [keras.layers.Activation(activation, dtype=dtype), keras.layers.MaxPooling2D(dtype=dtype)]
    layers += [keras.layers.GlobalAveragePooling2D(dtype=dtype), keras.layers.Dense(10, dtype="float32")]
    return keras.Sequential(layers)


def dense_net(
    width: int = 64, columns: int = 32, activation: str = "relu", normalise: bool = False, dtype: Any = None
) -> Any:
    """A dense network: narrow, and most of its step is the way to it; wide, and it is a product of matrices."""
    import keras

    keras.utils.set_random_seed(0)
    layers: list[Any] = [keras.Input((columns,))]
    for _ in range(3):
        layers.append(keras.layers.Dense(width, dtype=dtype))
        if normalise:
            layers.append(keras.layers.BatchNormalization(dtype=dtype))
        layers.append(keras.layers.Activation(activation, dtype=dtype))
    return keras.Sequential([*layers, keras.layers.Dense(10, dtype="float32")])


def compiled(model: Any, optimizer: Any = "adam", loss: Any = None, **more: Any) -> Any:
    import keras

    model.compile(optimizer, loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True), **more)
    return model


def training(model: Any, data: Any, targets: Any = None, *, steps: int, batch: int = 32, verbose: int = 0) -> Block:
    """Return a block: one epoch of `fit`; its work is counted in steps."""

    def block() -> float:
        if targets is None:
            model.fit(data, verbose=verbose)
        else:
            model.fit(data, targets, batch_size=batch, shuffle=False, verbose=verbose)
        return steps

    return block


def on_arrays(model: Any, data: tuple[Any, Any], batch: int = 32, **more: Any) -> Block:
    """Return a block: one epoch over arrays."""
    return training(model, *data, steps=-(-len(data[0]) // batch), batch=batch, **more)

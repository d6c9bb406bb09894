"""A larger learning rate makes the steps faster.

The same network with learning rates of 0.00001 and 0.01. Fewer steps may do with the larger one; the question here is
the time of a step.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, conv_net, on_arrays, pictures

SAID = ()


def cases() -> Iterator[Case]:
    import keras

    data = pictures(256)
    yield Case(
        "a convolutional network",
        on_arrays(compiled(conv_net(), keras.optimizers.Adam(1e-5)), data),
        on_arrays(compiled(conv_net(), keras.optimizers.Adam(1e-2)), data),
    )

"""Leaving out batch normalisation makes the step faster.

The same network with `BatchNormalization` after each layer, and without. (How many steps it needs then is another
question, which this does not ask.)
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, conv_net, dense_net, on_arrays, pictures, rows

SAID = ()


def cases() -> Iterator[Case]:
    data = pictures(256)
    yield Case(
        "a convolutional network",
        on_arrays(compiled(conv_net(normalise=True)), data),
        on_arrays(compiled(conv_net()), data),
    )
    data = rows(4096)
    yield Case(
        "a narrow dense network",
        on_arrays(compiled(dense_net(normalise=True)), data),
        on_arrays(compiled(dense_net()), data),
    )

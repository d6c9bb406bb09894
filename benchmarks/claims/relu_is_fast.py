"""ReLU trains faster per step than GELU.

The same network with `gelu` and with `relu`.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, conv_net, dense_net, on_arrays, pictures, rows

SAID = ()


def cases() -> Iterator[Case]:
    data = pictures(256)
    yield Case(
        "a convolutional network",
        on_arrays(compiled(conv_net(activation="gelu")), data),
        on_arrays(compiled(conv_net(activation="relu")), data),
    )
    data = rows(4096)
    yield Case(
        "a narrow dense network",
        on_arrays(compiled(dense_net(activation="gelu")), data),
        on_arrays(compiled(dense_net(activation="relu")), data),
    )

"""Mixed precision makes training faster, on a CPU too.

The same network in single precision and with `mixed_bfloat16`.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, conv_net, dense_net, on_arrays, pictures, rows

SAID = ("https://github.com/tensorflow/tensorflow/issues/34406", "https://github.com/NVIDIA/apex/issues/153")


def cases() -> Iterator[Case]:
    data = rows(1024, columns=512)
    yield Case(
        "a wide dense network",
        on_arrays(compiled(dense_net(width=512, columns=512)), data, batch=128),
        on_arrays(compiled(dense_net(width=512, columns=512, dtype="mixed_bfloat16")), data, batch=128),
    )
    data = pictures(256)
    yield Case(
        "a convolutional network",
        on_arrays(compiled(conv_net()), data),
        on_arrays(compiled(conv_net(dtype="mixed_bfloat16")), data),
    )

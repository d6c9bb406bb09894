"""SGD steps are faster than Adam steps.

The same network with both optimizers.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, conv_net, dense_net, on_arrays, pictures, rows

SAID = ("https://github.com/tensorflow/tensorflow/issues/59438",)


def cases() -> Iterator[Case]:
    data = rows(512, columns=1024)
    yield Case(
        "a wide dense network, 3 million weights",
        on_arrays(compiled(dense_net(width=1024, columns=1024)), data),
        on_arrays(compiled(dense_net(width=1024, columns=1024), "sgd"), data),
    )
    data = pictures(256)
    yield Case(
        "a convolutional network, 12,000 weights",
        on_arrays(compiled(conv_net()), data),
        on_arrays(compiled(conv_net(), "sgd"), data),
    )

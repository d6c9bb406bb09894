"""`steps_per_execution` makes training faster.

The same network with one step per execution and with 32.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, conv_net, dense_net, on_arrays, pictures, rows

SAID = ("https://github.com/keras-team/keras/pull/23527",)


def cases() -> Iterator[Case]:
    for name, build, data in (
        ("a narrow dense network", dense_net, rows(4096)),
        ("a convolutional network", conv_net, pictures(512)),
    ):
        yield Case(
            name,
            on_arrays(compiled(build()), data),
            on_arrays(compiled(build(), steps_per_execution=32), data),
        )

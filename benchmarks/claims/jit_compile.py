"""`jit_compile=True` makes training faster.

The same network compiled without and with XLA; compiling itself is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, conv_net, dense_net, on_arrays, pictures, rows

SAID = ("https://github.com/keras-team/keras-cv/pull/2406",)


def cases() -> Iterator[Case]:
    for name, build, data in (
        ("a narrow dense network", dense_net, rows(4096)),
        ("a convolutional network", conv_net, pictures(256)),
    ):
        yield Case(
            name,
            on_arrays(compiled(build(), jit_compile=False), data),
            on_arrays(compiled(build(), jit_compile=True), data),
        )

"""A bigger batch is always faster, per sample.

The same network with batches of 32 and of 256 samples. (What it does to learning is another question.)
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Block, Case, compiled, conv_net, dense_net, pictures, rows

SAID = ("https://github.com/keras-team/keras/issues/249",)


def cases() -> Iterator[Case]:
    for name, build, data in (
        ("a narrow dense network", dense_net, rows(4096)),
        ("a convolutional network", conv_net, pictures(256)),
    ):
        yield Case(name, samples(build, data, 32), samples(build, data, 256), unit="sample")


def samples(build, data, batch: int) -> Block:
    model = compiled(build())

    def block() -> float:
        model.fit(*data, batch_size=batch, shuffle=False, verbose=0)
        return len(data[0])

    return block

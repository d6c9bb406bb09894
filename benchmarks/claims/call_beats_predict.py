"""`model(x)` is faster than `model.predict(x)`.

The same trained network asked in both ways, for one sample and for many.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Block, Case, compiled, conv_net, dense_net, pictures, rows

SAID = (
    "https://github.com/tensorflow/tensorflow/issues/33340",
    "https://github.com/tensorflow/tensorflow/issues/44711",
)


def cases() -> Iterator[Case]:
    model = compiled(dense_net())
    x, _ = rows(1)
    yield Case("one sample", predicting(model, x, 8), calling(model, x, 8), unit="call")
    model = compiled(conv_net())
    x, _ = pictures(1024)
    yield Case("1,024 pictures at once", predicting(model, x, 1), calling(model, x, 1), unit="call")


def predicting(model, x, calls: int) -> Block:
    def block() -> float:
        for _ in range(calls):
            model.predict(x, verbose=0)
        return calls

    return block


def calling(model, x, calls: int) -> Block:
    def block() -> float:
        for _ in range(calls):
            model(x, training=False).numpy()
        return calls

    return block

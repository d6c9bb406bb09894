"""`tf.data` is faster than NumPy arrays in `fit`.

An epoch over arrays, and over the same arrays as a shuffled, batched, prefetched dataset.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Block, Case, compiled, conv_net, dense_net, pictures, rows, training

SAID = ("https://github.com/keras-team/keras-core/pull/267",)
BATCH = 32


def cases() -> Iterator[Case]:
    import tensorflow as tf

    for name, model, (x, y) in (
        ("many small rows", compiled(dense_net()), rows(4096)),
        ("pictures", compiled(conv_net()), pictures(256)),
    ):
        data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(BATCH).prefetch(2)
        yield Case(name, arrays(model, x, y), training(model, data, steps=len(x) // BATCH))


def arrays(model, x, y) -> Block:
    def block() -> float:
        model.fit(x, y, batch_size=BATCH, verbose=0)
        return len(x) // BATCH

    return block

"""Operations of layers, counted by hand."""

from __future__ import annotations

import pytest

from fitdoctor.lab.layer_work import Shapes, flops


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        # 32 rows, each 100 multiplications and additions for each of 10 units.
        (Shapes("Dense", [(32, 100)], [(32, 10)], [(100, 10), (10,)]), 2 * 32 * 100 * 10),
        (Shapes("Dense", [(4, 7, 100)], [(4, 7, 10)], [(100, 10)]), 2 * 4 * 7 * 100 * 10),
        # 26 x 26 places, 8 filters, each of 3 x 3 x 4 numbers.
        (Shapes("Conv2D", [(2, 28, 28, 4)], [(2, 26, 26, 8)], [(3, 3, 4, 8), (8,)]), 2 * 2 * 26 * 26 * 8 * 36),
        # Two groups: each filter sees half of the channels.
        (Shapes("Conv2D", [(2, 28, 28, 4)], [(2, 26, 26, 8)], [(3, 3, 2, 8)]), 2 * 2 * 26 * 26 * 8 * 18),
        (Shapes("Conv2DTranspose", [(1, 4, 4, 3)], [(1, 8, 8, 5)], [(2, 2, 5, 3)]), 2 * 4 * 4 * 3 * 2 * 2 * 5),
        (Shapes("DepthwiseConv2D", [(1, 8, 8, 3)], [(1, 6, 6, 3)], [(3, 3, 3, 1)]), 2 * 6 * 6 * 3 * 9),
        (
            Shapes("SeparableConv2D", [(1, 8, 8, 3)], [(1, 6, 6, 7)], [(3, 3, 3, 1), (1, 1, 3, 7), (7,)]),
            2 * 6 * 6 * 3 * 9 + 2 * 6 * 6 * 7 * 3,
        ),
        # 16 rows of 20 positions, four gates of 8 units over 5 inputs and 8 of the state.
        (Shapes("LSTM", [(16, 20, 5)], [(16, 8)], [(5, 32), (8, 32), (32,)]), 2 * 16 * 20 * (5 * 32 + 8 * 32)),
        (Shapes("Embedding", [(16, 20)], [(16, 20, 8)], [(1000, 8)]), 0),
        (
            Shapes("MultiHeadAttention", [(2, 10, 16), (2, 10, 16)], [(2, 10, 16)], [], {"num_heads": 2, "key_dim": 8}),
            2 * 2 * (4 * 10 * 16 * 16 + 2 * 10 * 10 * (8 + 8)),
        ),
    ],
    ids=lambda each: each.kind if isinstance(each, Shapes) else "",
)
def test_operations(layer: Shapes, expected: int) -> None:
    assert flops(layer) == expected


@pytest.mark.parametrize(
    "layer",
    [
        Shapes("BatchNormalization", [(2, 8)], [(2, 8)], [(8,)] * 4),
        Shapes("Squash", [(2, 8)], [(2, 8)], []),
        Shapes("Dense", [(2, 8)], [(2, 4)], []),
        Shapes("MultiHeadAttention", [(2, 4, 4, 8)], [(2, 4, 4, 8)], [], {"num_heads": 2, "key_dim": 4}),
    ],
    ids=lambda each: each.kind,
)
def test_what_is_not_known_is_not_nothing(layer: Shapes) -> None:
    assert flops(layer) is None

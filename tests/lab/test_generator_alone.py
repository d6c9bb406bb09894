"""Pulling from a bare generator in blocks, whatever its length."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fitdoctor.errors import CannotRun
from fitdoctor.lab.experiments.generator_alone import Bare


@pytest.mark.parametrize("length", [1, 63, 64, 65, 640])
def test_it_begins_anew_wherever_a_block_ends(length: int) -> None:
    def elements() -> Iterator[int]:
        yield from range(length)

    bare = Bare(elements)
    assert all(bare.block(0.0005) > 0 for _ in range(40))


def test_one_that_cannot_be_begun_anew_says_so() -> None:
    once = iter(range(10))
    bare = Bare(lambda: once)
    bare.block(0.001)
    with pytest.raises(CannotRun, match="used up"):
        bare.block(0.001)

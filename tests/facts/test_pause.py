"""A pause between epochs that came once."""

from __future__ import annotations

import pytest

from fitdoctor.facts.training import pause_seen


@pytest.mark.parametrize(
    ("values", "by_hooks", "expected"),
    [
        ([0.1, 0.2, 0.3], 0.0, 0.0),  # they vary
        ([2.0, 0.1, 0.1], 0.0, 1.9),  # once, far longer
        ([0.1, 2.0, 0.1], 0.0, 1.9),  # whenever it came
        ([2.0, 1.0, 0.1], 0.0, 0.0),  # twice: it may come again
        ([2.0, 0.1], 0.0, 0.0),  # one other tells nothing
        ([2.0, 0.1, 0.1], 1.0, 0.0),  # callbacks took it
        ([1.5], 0.0, 0.0),
    ],
)
def test_a_stall_that_was_seen_once(values: list[float], by_hooks: float, expected: float) -> None:
    assert pause_seen(values, by_hooks) == pytest.approx(expected)

"""What some epochs tell of all of them."""

from __future__ import annotations

import pytest

from fitdoctor.facts.training import mean_over


@pytest.mark.parametrize(
    ("values", "epochs", "by_hooks", "expected"),
    [
        ([0.1, 0.2, 0.3], 100, 0.0, 0.2),  # they vary: the mean
        ([2.0, 0.1, 0.1], 12, 0.0, (2.2 + 9 * 0.1) / 12),  # once, far longer: it does not come again
        ([0.1, 2.0, 0.1], 12, 0.0, (2.2 + 9 * 0.1) / 12),  # whenever it came
        ([2.0, 1.0, 0.1], 12, 0.0, 3.1 / 3),  # twice: it may come again
        ([2.0, 0.1], 12, 0.0, 1.05),  # one other tells nothing
        ([2.0, 0.1, 0.1], 3, 0.0, 2.2 / 3),  # all were seen
        ([2.0, 0.1, 0.1], 12, 1.0, 2.2 / 3),  # callbacks took it
        ([1.5], 12, 0.0, 1.5),
    ],
)
def test_a_stall_that_was_seen_once(values: list[float], epochs: int, by_hooks: float, expected: float) -> None:
    assert mean_over(values, epochs, by_hooks) == pytest.approx(expected)

"""Comparisons, and what a few of them tell."""

from __future__ import annotations

import pytest

from fitdoctor.facts import rows


def test_one_disturbed_comparison_of_many_is_left_out() -> None:
    quiet = rows.paired([10.0] * 5, [1.0, 1.1, 0.9, 1.0, 1.2])
    disturbed = rows.paired([10.0] * 6, [1.0, 1.1, 0.9, 1.0, 1.2, 20.0])
    assert (disturbed.low, disturbed.mid, disturbed.high) == (quiet.low, quiet.mid, quiet.high)
    assert rows.paired([10.0] * 6, [1.0, 1.1, 0.9, 1.0, 20.0, 20.0]).high > 0.5, "two are no accident"


def test_two_comparisons_tell_less_than_what_lies_between_them() -> None:
    found = rows.paired([10.0, 10.0], [7.0, 8.0])
    assert (found.low, found.mid, found.high) == pytest.approx((0.6, 0.75, 0.9))

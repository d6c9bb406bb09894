from __future__ import annotations

import math
from typing import Any

import pytest

from fitdoctor.proof.equivalence import Learning, begun, compare, passes


def runs(*losses: float, epoch: int = 0, step: float = 100) -> list[dict[tuple[int, float], float]]:
    return [{(epoch, step): each} for each in losses]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (runs(0.5, 0.5), runs(0.5, 0.5), "identical"),
        (runs(0.5, 0.5), runs(0.50001, 0.50001), "within rounding"),
        (runs(0.5, 0.55, 0.45), runs(0.52, 0.48, 0.54), "alike"),
        (runs(0.5, 0.5), runs(0.7, 0.7), "different"),
        (runs(0.5, 0.5, 0.5), runs(0.5, 0.6, 0.45), "different"),
        (runs(0.5, 0.5, 0.5), runs(0.5, 0.51, 0.49), "different"),
        (runs(0.5, 0.5, 0.5), runs(0.502, 0.5, 0.5), "alike"),
        (runs(0.5, 0.6, 0.45), runs(0.5, 0.5, 0.5), "alike"),
        (runs(0.5, 0.5), runs(float("nan"), 0.5), "different"),
        (runs(float("nan")), runs(0.5), "not compared"),
        (runs(0.5, float("nan")), runs(float("nan"), float("nan")), "different"),
        (runs(0.5, float("nan")), runs(0.5, float("nan")), "not compared"),
        (runs(0.5), runs(float("nan"), step=12), "different"),
        (runs(0.5), runs(0.5, step=150), "not compared"),
        (runs(0.5), [{}], "not compared"),
    ],
)
def test_kinds(before: list[Any], after: list[Any], kind: str) -> None:
    assert compare(before, after).kind == kind


def test_the_last_place_that_all_runs_passed_is_compared() -> None:
    one = {(0, math.inf): 0.9, (1, math.inf): 0.5, (2, 17.0): 0.3}
    other = {(0, math.inf): 0.9, (1, math.inf): 0.5, (2, 32.0): 0.1}
    found = compare([one, one], [other, other])
    assert (found.kind, found.before) == ("identical", (0.5, 0.5))
    other[1, math.inf] = 0.7
    assert compare([one, one], [other, other]).kind == "different"


def test_where_the_runs_stopped_is_told() -> None:
    assert "epoch 1 step 100, epoch 2 step 3" in compare(runs(0.5), runs(0.5, epoch=1, step=3)).because


def test_a_loss_that_is_lost_is_seen_where_nothing_else_can_be_compared() -> None:
    found = compare(runs(0.5), runs(float("nan"), step=12), incomparable="batches are of another size")
    assert (found.kind, found.lost) == ("different", True)
    assert compare(runs(0.5), runs(0.7), incomparable="batches").because == "batches"


def test_epochs_that_are_longer_come_to_what_the_short_ones_come_to_together() -> None:
    short = {**{(epoch, math.inf): 1.0 / (epoch + 1) for epoch in range(7)}, (7, 23.0): 0.1}
    assert passes(short, 1) == short
    assert passes(short, 3) == {
        (0, math.inf): pytest.approx((1 + 1 / 2 + 1 / 3) / 3),
        (1, math.inf): pytest.approx((1 / 4 + 1 / 5 + 1 / 6) / 3),
    }
    del short[0, math.inf]  # only so many epochs are kept
    assert list(passes(short, 3)) == [(1, math.inf)]
    assert passes({}, 3) == {}


ROUNDED = Learning("within rounding", "losses differ by 1e-05")


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (runs(0.7, 0.7), runs(0.7, 0.7), "within rounding"),
        (runs(0.7, 0.7), runs(0.70001, 0.70001), "within rounding"),
        (runs(0.7, 0.7), runs(0.72, 0.72), "different"),
        (runs(0.7, 0.8), runs(0.72, 0.6), "within rounding"),  # nothing is seeded: it always begins differently
        (runs(0.7, 0.7), runs(0.72, 0.6), "within rounding"),  # compared by what it comes to
        (runs(0.7, 0.7006), runs(0.7005, 0.7011), "within rounding"),  # nothing is seeded, and it scatters little
        (runs(0.7, 0.7), runs(0.9, 0.9, step=8), "within rounding"),  # several steps at a time
        (runs(0.7, 0.7), runs(float("nan"), 0.7), "within rounding"),
        (runs(0.7, 0.7), [{}, {}], "within rounding"),
    ],
)
def test_who_begins_with_other_batches_does_not_learn_the_same(before: Any, after: Any, kind: str) -> None:
    assert begun(ROUNDED, before, after).kind == kind


def test_what_the_first_batches_say_is_told_beside_what_the_end_says() -> None:
    same, other = (runs(0.7, 0.7), runs(0.7, 0.7)), (runs(0.7, 0.7), runs(0.8, 0.8))
    for kind in ("alike", "different", "not compared"):
        found = Learning(kind, "so it ended")
        assert begun(found, *same).because == "so it ended; the first batches give the same loss"
    for kind in ("alike", "different"):
        told = begun(Learning(kind, "so it ended"), *other)
        assert (told.kind, told.because) == (
            kind,
            "so it ended; the first batches give another loss: 0.7 before, 0.8 after",
        )
    assert begun(Learning("not compared", "so it ended"), *other).kind == "different"
    identical = Learning("identical", "bit for bit")
    assert begun(identical, *same) is identical

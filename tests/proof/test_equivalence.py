from __future__ import annotations

import math
from typing import Any

import pytest

from fitdoctor.proof.equivalence import compare


def runs(*losses: float, epoch: int = 0, step: float = 100) -> list[dict[tuple[int, float], float]]:
    return [{(epoch, step): each} for each in losses]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (runs(0.5, 0.5), runs(0.5, 0.5), "identical"),
        (runs(0.5, 0.5), runs(0.50001, 0.50001), "within rounding"),
        (runs(0.5, 0.55, 0.45), runs(0.52, 0.48, 0.54), "alike"),
        (runs(0.5, 0.5), runs(0.7, 0.7), "different"),
        (runs(0.5, 0.5), runs(float("nan"), 0.5), "different"),
        (runs(float("nan")), runs(0.5), "not compared"),
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

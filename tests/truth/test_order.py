"""The same experiments in another order give the same numbers, within what a shared machine allows."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Doctor

SCRIPT = Path(__file__).parents[1] / "lab" / "every_experiment.py"
COMPARED = ("callbacks off", "metrics off", "batch size x2")
ATTEMPTS = 3
"""A neighbour on the machine may take it for seconds."""
MARGIN = 1.3


def ratios(doctor: Doctor, order: str) -> dict[str, float]:
    ran = doctor.plain(str(SCRIPT), order, "exactly", backend="torch")
    assert ran.code == 0, ran.err
    trials: dict[str, Any] = json.loads(ran.out.strip().splitlines()[-1])["trials"]
    return {
        name: statistics.median(after / before for before, after in zip(*trials[name], strict=True))
        for name in COMPARED
    }


@pytest.mark.framework
def test_the_order_of_experiments_does_not_change_what_they_say(doctor: Doctor) -> None:
    for _ in range(ATTEMPTS):
        here, there = ratios(doctor, "forwards"), ratios(doctor, "backwards")
        apart = {name: here[name] / there[name] for name in COMPARED}
        if all(1 / MARGIN < each < MARGIN for each in apart.values()):
            return
    pytest.fail(f"{apart}")

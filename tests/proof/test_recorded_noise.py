"""Proofs on noise that was recorded: how far real runs of one and the same training were apart (`make bench-prove`)."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from fitdoctor.model import Proof
from fitdoctor.proof.prove import prove
from fitdoctor.proof.runs import Run

RECORD = json.loads((Path(__file__).parent / "noise.json").read_text("utf-8"))
PROOFS = 600


def apart() -> list[float]:
    """Return the logarithms of before over after, of every pair on record: all of that is noise."""
    return [
        math.log(before / after)
        for each in RECORD["proofs"]
        for before, after in zip(each["before"], each["after"], strict=True)
    ]


def simulated(truth: float, seed: int) -> Proof:
    """Prove a speed-up by pairs of runs that are apart as some on record were."""
    rng, logs, drawn = random.Random(seed), apart(), [0.0]
    count = 0

    def version(seconds: float, side: float) -> Callable[..., Run]:
        def once(**_: object) -> Run:
            nonlocal count
            count += 1
            if count % 2:  # the first of a pair; which version was called which was chance
                drawn[0] = rng.choice((-1, 1)) * rng.choice(logs)
            took = seconds * math.exp(side * drawn[0] / 2)
            return Run(took, took / 100, {(0, 100.0): 0.5})

        return once

    return prove(version(20.0 * truth, 1), version(20.0, -1), seconds=math.inf, clock=lambda: 0.0)


@pytest.mark.parametrize("truth", [1.0, 1.1, 1.3, 2.0])
def test_it_holds_the_truth_19_times_in_20(truth: float) -> None:
    found = [simulated(truth, seed) for seed in range(PROOFS)]
    held = sum(each.speedup.low <= truth <= each.speedup.high for each in found) / PROOFS
    assert 0.92 <= held <= 0.98


def test_the_same_against_itself_is_seldom_called_anything_else() -> None:
    """On a machine as busy as that little can be proved; what matters is that nothing wrong is."""
    verdicts = [simulated(1.0, seed).verdict for seed in range(PROOFS)]
    assert sum(each in ("PROVED", "REFUTED") for each in verdicts) / PROOFS <= 0.05


def test_there_is_enough_on_record() -> None:
    assert len(apart()) >= 20
    assert len({each["backend"] for each in RECORD["proofs"]}) == 3

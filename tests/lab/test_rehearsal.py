"""Trainings rehearsed on data that comes faster, on real frameworks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fitdoctor.lab import rehearsal
from tests.conftest import Doctor

SCRIPT = Path(__file__).with_name("rehearsals.py")


@pytest.mark.framework
@pytest.mark.parametrize(
    ("backend", "kind", "what"),
    [
        ("tensorflow", "pipeline", "steps"),
        ("tensorflow", "dataset", "epochs"),
        ("jax", "pipeline", "epochs"),
        ("jax", "dataset", "steps"),
        ("torch", "dataset", "steps"),
        ("torch", "dataset", "epochs"),
    ],
)
def test_the_training_is_rehearsed_on_the_fastest_data(doctor: Doctor, backend: str, kind: str, what: str) -> None:
    ran = doctor.plain(str(SCRIPT), kind, what, backend=backend)
    assert ran.code == 0, ran.err
    seen = json.loads(ran.out.strip().splitlines()[-1])
    assert seen["differs"] == []
    assert not seen["drawn"], "the generators of the loader are as they were"
    assert seen["function"], "the user's own train function is back"
    assert [name for name in seen["trials"] if name.startswith("rehearsed: ")] == ["rehearsed: all left out"], seen
    trial = seen["trials"]["rehearsed: all left out"]
    assert trial["whole"] is (what == "epochs")
    # Nearly all of the step is the work that was left out; half of it would do for this machine's noise.
    assert trial["ratio"] < 0.5


def test_an_epoch_that_hung_is_left_out() -> None:
    assert rehearsal._per_epoch([0, 100, 210, 5_210, 5_310]) == (100 + 110 + 100) / 3


def test_epochs_of_like_lengths_all_count() -> None:
    assert rehearsal._per_epoch([0, 100, 400]) == 200

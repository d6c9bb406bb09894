"""Trainings rehearsed on data that comes faster, on real frameworks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fitdoctor.lab import rehearsal
from fitdoctor.lab.freeing import Freeing
from fitdoctor.lab.job import Variant
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
    assert rehearsal._per_epoch([0, 100, 210, 5_210, 5_310], [0, 0, 0, 0]) == (100 + 110 + 100) / 3


def test_epochs_of_like_lengths_all_count() -> None:
    assert rehearsal._per_epoch([0, 100, 400], [0, 0]) == 200


def test_a_stall_in_which_old_data_is_freed_does_not_count() -> None:
    assert rehearsal._per_epoch([0, 100, 400], [0, 200]) == 100


class Clock:
    """Tells the time that it was set to."""

    now = 0

    def __call__(self) -> int:
        return self.now


def passed(seen: Freeing, clock: Clock, *between_ms: int) -> list[int]:
    """Train a block whose epochs have so much between them; return its stalls in milliseconds."""
    seen.begin()
    for between in (0, *between_ms):
        for step in range(5):
            clock.now += (between if step == 0 else 2) * 1_000_000
            seen.step_begins()
            clock.now += 10_000_000
        seen.epoch_ended()
    return [each // 1_000_000 for each in seen.stalls()]


@pytest.mark.parametrize(
    ("between_ms", "stalls_ms"),
    [
        ([20, 900, 20], [0, 880, 0]),
        ([20, 40, 30], [0, 0, 0]),  # too short to be told from what every epoch takes
        ([700, 900, 800], [0, 0, 0]),  # every epoch takes that
    ],
)
def test_what_passes_between_epochs(between_ms: list[int], stalls_ms: list[int]) -> None:
    clock = Clock()
    assert passed(Freeing(clock), clock, *between_ms) == stalls_ms


def test_what_is_usual_is_known_from_earlier_blocks() -> None:
    clock = Clock()
    seen = Freeing(clock)
    assert passed(seen, clock, 20) == [0]
    assert passed(seen, clock, 900, 950) == [880, 930]


def test_epochs_are_rehearsed_whole_where_there_is_time_when_their_turn_comes() -> None:
    """An epoch of a second: four blocks of two epochs each."""
    now = time.monotonic()
    job: Any = SimpleNamespace(given={"steps_per_epoch": 100}, last=now + 10)
    assert rehearsal.epoch_seconds(job, 10e6) == pytest.approx(1.0)
    assert rehearsal.epoch_seconds(job, 10e6, begins=now + 5) is None


def test_an_execution_of_many_steps_needs_the_time_of_all_of_them() -> None:
    """Five executions of 32 steps of 17 ms at least, in a block of which four are made."""
    now = time.monotonic()
    job: Any = SimpleNamespace(given={"steps_per_epoch": 1000}, until=now + 5, last=now + 10, own=Variant())
    names = {"eight": Variant(steps_per_execution=8), "many": Variant(steps_per_execution=32)}
    blocks = [each.block_seconds for each in rehearsal.with_settings(job, 17e6, "PyDataset", names)]
    assert blocks == pytest.approx([5 * 8 * 0.017, 5 * 32 * 0.017])

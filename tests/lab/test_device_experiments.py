"""The lab's experiments about the device, under a real affinity mask: measured, and everything as it was."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Doctor

SCRIPT = Path(__file__).parent / "device_experiments.py"
ON_ONE_CORE = """
import os, runpy, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def lab(doctor: Doctor, backend: str, *arguments: str) -> dict[str, Any]:
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system has no affinity masks")
    ran = doctor.plain("-c", ON_ONE_CORE, str(SCRIPT), *arguments, backend=backend)
    assert ran.code == 0, ran.err
    seen = dict(json.loads(ran.out.strip().splitlines()[-1]))
    assert seen["differs"] == []
    assert seen["settings"]
    return seen


def ratio(trial: list[list[float]]) -> float:
    before, after = trial
    return statistics.median(after) / statistics.median(before)


@pytest.mark.framework
def test_six_threads_on_one_core_are_tried_against_one(doctor: Doctor) -> None:
    seen = lab(doctor, "torch", "threads")
    assert seen["worth"]["a thread per core"]
    # Half the time on a quiet core; on one that others use too, only that it was measured is sure.
    assert 0.1 < ratio(seen["trials"]["threads=1"]) < 3, seen


@pytest.mark.framework
def test_a_recurrent_layer_as_torch_wants_it(doctor: Doctor) -> None:
    seen = lab(doctor, "torch", "recurrent")
    assert seen["worth"]["the backend's own recurrent kernel"]
    assert ratio(seen["trials"]["recurrent kernel"]) < 0.9, seen


@pytest.mark.framework
def test_a_recurrent_layer_as_jax_wants_it(doctor: Doctor) -> None:
    seen = lab(doctor, "jax", "recurrent")
    assert seen["worth"] == {"the backend's own recurrent kernel": True, "a thread per core": False}
    assert set(seen["trials"]) == {"recurrent kernel"}, seen["gaps"]


@pytest.mark.framework
def test_numbers_that_faded_away_are_taken_as_zero(doctor: Doctor) -> None:
    seen = lab(doctor, "torch", "denormals")
    assert seen["worth"]["denormal numbers as zero"]
    # A processor that does not mind such numbers takes as long either way, and blocks differ by a third here.
    assert ratio(seen["trials"]["denormals flushed"]) < 2, seen

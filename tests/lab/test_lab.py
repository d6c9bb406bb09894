"""The lab on real frameworks: everything is as it was, whatever was tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Doctor

SCRIPT = Path(__file__).parent / "every_experiment.py"
BACKENDS = ["tensorflow", "jax", "torch"]


def lab(doctor: Doctor, backend: str, order: str) -> dict[str, Any]:
    ran = doctor.plain(str(SCRIPT), order, backend=backend)
    assert ran.code == 0, ran.err
    return dict(json.loads(ran.out.strip().splitlines()[-1]))


@pytest.mark.framework
@pytest.mark.parametrize("backend", BACKENDS)
def test_after_every_experiment_the_state_is_bit_for_bit_what_it_was(doctor: Doctor, backend: str) -> None:
    seen = lab(doctor, backend, "forwards")
    assert seen["differs"] == []
    assert all(seen["settings"])
    expected = {"cached batch", "loader alone", "callbacks off", "metrics off", "idle step", "batch size x2"}
    if backend != "torch":
        expected |= {"steps_per_execution=8"}
    if backend == "tensorflow":
        expected |= {"jit_compile=True"}
    assert expected <= set(seen["trials"]), seen["gaps"]


@pytest.mark.framework
def test_an_experiment_that_raises_is_a_gap_and_leaves_the_state(doctor: Doctor) -> None:
    seen = lab(doctor, "jax", "raises")
    assert seen["differs"] == []
    assert all(seen["settings"])
    assert "loader alone" in seen["trials"]
    failed = [reason for what, reason in seen["gaps"] if what == "experiment: one cached batch"]
    assert failed
    assert "RuntimeError at every_experiment.py" in failed[0]
    assert "metrics off" in seen["trials"], "experiments without the failing callback still run"


@pytest.mark.framework
def test_the_order_does_not_matter(doctor: Doctor) -> None:
    seen = lab(doctor, "torch", "backwards")
    assert seen["differs"] == []
    assert {"cached batch", "loader alone", "metrics off"} <= set(seen["trials"])

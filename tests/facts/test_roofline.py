from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import resolve
from fitdoctor.facts.roofline import Roofline, as_data
from tests.captures.build import Run


def run(**detail: object) -> Run:
    told = {"forward_flops": 1e9, "activation_bytes": 8e6, "weight_bytes": 4e6, "not_counted": [], **detail}
    made = Run().fit(compute_ms=30)
    made.trial("large products", baseline_ms=30, changed_ms=20, flops=2e9, unit="ns per call", **told)
    made.trial("large copies", baseline_ms=30, changed_ms=10, bytes=128e6, unit="ns per call", **told)
    return made


def test_a_step_against_what_the_machine_can_do(tmp_path: Path) -> None:
    found = resolve(run().capture(tmp_path)).get(Roofline)
    # Three forward passes of 1 GFLOP in 30 ms, where products do 2 GFLOP in 20 ms: all of it.
    assert found.flops_per_s.mid == pytest.approx(100e9, rel=0.03)
    assert found.arithmetic.mid == pytest.approx(1.0, rel=0.05)
    # 3 x 8 MB and 5 x 4 MB in 30 ms, where copies do 12.8 GB/s.
    assert found.memory.mid == pytest.approx(44e6 / 30e-3 / 12.8e9, rel=0.05)
    assert found.nearest == "arithmetic"
    assert found.arithmetic.low <= found.arithmetic.mid <= found.arithmetic.high
    assert as_data(found)["nearest"] == "arithmetic"


def test_many_bytes_for_few_operations(tmp_path: Path) -> None:
    found = resolve(run(forward_flops=1e7, activation_bytes=100e6).capture(tmp_path)).get(Roofline)
    assert found.nearest == "memory"


def test_layers_whose_operations_are_not_known(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence, match="Mystery"):
        resolve(run(forward_flops=0, not_counted=["Mystery"]).capture(tmp_path)).get(Roofline)


def test_no_calibration_no_roofline(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence):
        resolve(Run().fit().capture(tmp_path)).get(Roofline)

"""The breakdown against workloads whose cost is known by construction: 3 backends × 6 adapters, reading or computing.

A share must be within 10 % of the truth or within 3 % of the step.  The machine may be shared, and a neighbour that
takes a core for a second makes any two clocks disagree, so a cell has five attempts; each is a whole new run, judged
on its own truth.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fitdoctor import facts
from fitdoctor.facts.step_model import StepModel
from tests.conftest import Doctor

BACKENDS = ("tensorflow", "jax", "torch")
ADAPTERS = ("arrays", "tf.data", "PyDataset", "generator", "DataLoader", "Grain")
STEPS = 50
IN_TURNS = {
    "tensorflow": {"tf.data"},
    "jax": {"tf.data", "PyDataset", "generator", "DataLoader"},
    "torch": {"tf.data", "PyDataset", "generator", "DataLoader"},
}
"""Where input that computes can be made to take turns with the step (see workload.py)."""
CELLS = [
    (backend, adapter, kind)
    for backend in BACKENDS
    for adapter in ADAPTERS
    for kind in ("read", "cpu")
    if kind == "read" or adapter in IN_TURNS[backend]
]
ATTEMPTS = 5


def attempt(doctor: Doctor, backend: str, adapter: str, kind: str) -> list[str]:
    """Run one cell; return what was wrong."""
    script = doctor.script((Path(__file__).parent / "workload.py").read_text(), "workload.py")
    ran = doctor.run("--whole", "--quiet", str(script), adapter, kind, str(STEPS), backend=backend)
    assert ran.code == 0, ran.err
    truth = json.loads(next(line for line in ran.out.splitlines() if line.startswith('{"step"')))
    capture = ran.capture
    assert capture.calls[0].info["adapter"] == adapter
    model = facts.resolve(capture).get(StepModel)
    rest = model.step.mid - model.parts["input"].mid
    wrong = []
    for name, found, true in (
        ("step", model.step.mid, truth["step"]),
        ("input", model.parts["input"].mid, max(0.0, truth["step"] - truth["rest"])),
        ("rest of the step", rest, min(truth["rest"], truth["step"])),
    ):
        if abs(found - true) > max(0.10 * true, 0.03 * truth["step"]):
            wrong.append(f"{name}: {found * 1e3:.2f} ms, in truth {true * 1e3:.2f} ms of {truth}")
    assert sum(part.mid for part in model.parts.values()) == pytest.approx(model.step.mid, rel=1e-9)
    phases, wall = sum(capture.account.values()), capture.meta["wall_s"]
    assert phases == pytest.approx(wall, rel=0.03)
    return wrong


@pytest.mark.framework
@pytest.mark.parametrize(("backend", "adapter", "kind"), CELLS)
def test_shares_are_true(doctor: Doctor, backend: str, adapter: str, kind: str) -> None:
    wrong: list[str] = []
    for _ in range(ATTEMPTS):
        wrong = attempt(doctor, backend, adapter, kind)
        if not wrong:
            return
    pytest.fail("; ".join(wrong))

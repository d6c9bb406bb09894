from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor import facts
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.device_use import DeviceUse
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture
from tests.captures.build import Run


def test_a_fact_is_established_once(tmp_path: Path) -> None:
    found = facts.resolve(Run().fit().capture(tmp_path))
    assert found.get(Training) is found.get(Training)
    assert found.get(Capture) is found.capture


def test_a_function_gets_what_its_signature_names(tmp_path: Path) -> None:
    found = facts.resolve(Run().fit().capture(tmp_path))

    def wants(capture: Capture, model: StepModel, devices: DeviceUse | None, word: str) -> tuple[object, ...]:
        return capture.path, model.step.mid, devices, word

    path, step, devices, word = found.call(wants, word="given")
    assert (path, devices, word) == (found.capture.path, None, "given")
    assert step == pytest.approx(0.010, rel=0.05)


def test_a_missing_fact_says_why_every_time(tmp_path: Path) -> None:
    found = facts.resolve(Run().capture(tmp_path))
    for _ in range(2):
        with pytest.raises(MissingEvidence, match="no fit") as caught:
            found.get(StepModel)
        assert caught.value.gap.what == "training"


def test_a_type_nobody_establishes_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"no module .* establishes Path"):
        facts.resolve(Run().capture(tmp_path)).get(Path)


def test_every_module_with_establish_is_reached() -> None:
    names = {fact.__name__ for fact in facts._establishers()}
    assert {
        "Training", "StepModel", "CallbackCosts", "CompileLog", "InputPipeline", "HostUse", "DeviceUse",
        "SourceTree", "Trials",
    } <= names  # fmt: skip

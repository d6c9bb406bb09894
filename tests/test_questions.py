"""The questions that fitdoctor was founded on, asked as people ask them: each script is run as a user would run it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Doctor

QUESTIONS = Path(__file__).parent / "questions"


def first_finding(doctor: Doctor, name: str, expected: str, budget: int = 60) -> dict[str, Any]:
    """Return the finding that has to come first; what was said instead is in the message."""
    shutil.copy(QUESTIONS / f"{name}.py", doctor.work / "train.py")
    ran = doctor.run("--json", "report.json", "--budget", str(budget), "train.py", lab=True, timeout=600)
    assert ran.code == 0, ran.err
    report = json.loads((doctor.work / "report.json").read_text())
    names = [each["rule"] for each in report["findings"]]
    said = {"unknown": report["unknown"], "passed": [each for each in report["passed"] if each["rule"] == expected]}
    assert names[:1] == [expected], (names, said)
    return dict(report["findings"][0])


def marked(name: str, text: str = "# here") -> int:
    lines = (QUESTIONS / f"{name}.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.framework
@pytest.mark.slow
def test_a_resnet50_in_a_loop_of_its_own_is_not_compiled(doctor: Doctor) -> None:
    found = first_finding(doctor, "resnet50_loop", "eager-step", budget=120)
    assert found["saving"]["low"] > 0.2


@pytest.mark.framework
@pytest.mark.slow
def test_a_convolution_with_1024_filters_is_named_with_its_share(doctor: Doctor) -> None:
    found = first_finding(doctor, "wide_convolution", "overwide-layer", budget=120)
    assert found["site"]["line"] == marked("wide_convolution")
    assert "1,024 filters" in found["because"]
    assert "of a step" in found["because"], "its share"


@pytest.mark.framework
@pytest.mark.slow
def test_a_layer_in_numpy_is_named_with_its_line(doctor: Doctor) -> None:
    found = first_finding(doctor, "numpy_layer", "host-placed-op")
    line, end = found["site"]["line"], found["site"]["end_line"]
    near = {marked("numpy_layer"), marked("numpy_layer", "for place"), marked("numpy_layer", "tf.numpy_function")}
    assert line in near or (end and any(line <= each <= end for each in near)), (line, end)


@pytest.mark.framework
@pytest.mark.slow
def test_histograms_in_every_epoch_are_named_with_their_cost(doctor: Doctor) -> None:
    found = first_finding(doctor, "histograms", "slow-callback")
    assert "TensorBoard" in found["because"]
    assert found["saving"]["mid"] > 0.02

"""What each stage of a pipeline costs in the run, against stages whose cost is known: within 15 %.

As in test_truth.py an attempt is a whole new run, judged on its own truth, and there are five.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fitdoctor import facts
from fitdoctor.facts.input_view import InputView
from fitdoctor.model import Interval
from tests.conftest import Doctor

ATTEMPTS = 5


def attempt(doctor: Doctor) -> list[str]:
    """Run it once; return what was wrong."""
    script = doctor.script((Path(__file__).parent / "stages.py").read_text(), "stages.py")
    ran = doctor.run("--whole", "--quiet", str(script))
    assert ran.code == 0, ran.err
    truth = json.loads(next(line for line in ran.out.splitlines() if line.startswith('{"short"')))
    stages = facts.resolve(ran.capture).get(InputView).stages
    assert [each.op for each in stages if each.place is not None][:5] == ["Range", "Map", "Map", "Map", "Batch"]
    _, read, short, long, *_ = (each for each in stages if each.place is not None)
    wrong = []

    def compare(name: str, found: Interval | None, true: float) -> None:
        if found is None:
            wrong.append(f"{name} was not measured")
        elif abs(found.mid - true) > 0.15 * true:
            wrong.append(f"{name}: {found.mid * 1e3:.3f} ms, in truth {true * 1e3:.3f} ms")

    for name, stage in (("read", read), ("short", short), ("long", long)):
        compare(name, stage.busy, truth[name])
    return wrong


@pytest.mark.framework
def test_stages_cost_what_they_cost(doctor: Doctor) -> None:
    wrong: list[str] = []
    for _ in range(ATTEMPTS):
        wrong = attempt(doctor)
        if not wrong:
            return
    pytest.fail("; ".join(wrong))

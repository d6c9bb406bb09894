"""What each stage of a pipeline costs in the run, against stages whose cost is known: within 15 %.

In the run, with a stage that waits; and alone, as the lab pulls them, where stages only compute.

As in test_truth.py an attempt is a whole new run, judged on its own truth, and there are five.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fitdoctor import facts
from fitdoctor.facts.input_stages import Stage
from fitdoctor.facts.input_view import InputView
from fitdoctor.model import Interval
from tests.conftest import Doctor

ATTEMPTS = 5
WITHIN = 0.15


BATCH = 8


def observed(doctor: Doctor, *words: str, lab: bool) -> tuple[dict[str, float], list[Stage]]:
    """Run it once; return the truth, and the user's own stages."""
    script = doctor.script((Path(__file__).parent / "stages.py").read_text(), "stages.py")
    options = ("--quiet", "--budget", "12") if lab else ("--whole", "--quiet")
    ran = doctor.run(*options, str(script), *words, lab=lab)
    assert ran.code == 0, ran.err
    truth = json.loads(next(line for line in ran.out.splitlines() if line.startswith('{"short"')))
    stages = [each for each in facts.resolve(ran.capture).get(InputView).stages if each.place is not None]
    assert [each.op for each in stages][:5] == ["Range", "Map", "Map", "Map", "Batch"]
    return truth, stages


def off(name: str, found: Interval | None, true: float) -> list[str]:
    """Say what is wrong with a cost."""
    if found is None:
        return [f"{name} was not measured"]
    if abs(found.mid - true) > WITHIN * true:
        return [f"{name}: {found.mid * 1e3:.3f} ms, in truth {true * 1e3:.3f} ms"]
    return []


def in_the_run(doctor: Doctor) -> list[str]:
    truth, (_, read, short, long, *_) = observed(doctor, lab=False)
    costs = (("read", read.busy), ("short", short.busy), ("long", long.busy))
    return [said for name, cost in costs for said in off(name, cost, truth[name])]


def alone(doctor: Doctor) -> list[str]:
    truth, (_, _, short, long, *_) = observed(doctor, "computing", lab=True)
    return [
        said
        for name, stage in (("short", short), ("long", long))
        for kind, cost in (("on the clock", stage.wall), ("of CPU time", stage.cpu))
        for said in off(f"{name} {kind}", cost, BATCH * truth[name])
    ]


@pytest.mark.framework
@pytest.mark.parametrize("attempt", [in_the_run, alone])
def test_stages_cost_what_they_cost(doctor: Doctor, attempt: Callable[[Doctor], list[str]]) -> None:
    wrong: list[str] = []
    for _ in range(ATTEMPTS):
        wrong = attempt(doctor)
        if not wrong:
            return
    pytest.fail("; ".join(wrong))

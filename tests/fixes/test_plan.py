"""What is written together, and what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fitdoctor.edits import Arguments, Spot
from fitdoctor.fixes import plan
from fitdoctor.fixes.plan import Wanted
from fitdoctor.model import Cost, Finding, Fix, Interval, Report
from tests.captures.build import Run

SCRIPT = "model.fit(x, y)\n"


def finding(path: Path, rule: str, name: str, apart: tuple[str, ...] = ()) -> Finding:
    edit = Arguments(Spot(str(path), 1, len("model.fit")), ((name, "1"),))
    return Finding(rule, "framework", None, Cost(Interval.exact(0.5), ""), Fix("", "same", edits=(edit,), apart=apart))


@pytest.mark.parametrize("says", ["first", "second"])
def test_fixes_that_mean_something_else_together_are_not_written_together(tmp_path: Path, says: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    run = Run(script=str(script), cwd=str(tmp_path), command=["train.py"])
    run.fit(compute_ms=20)
    run.source(SCRIPT, str(script))
    capture = run.capture(tmp_path)
    first = finding(script, "wasted-epochs", "epochs", ("costly-validation",) if says == "first" else ())
    second = finding(script, "costly-validation", "validation_freq", ("wasted-epochs",) if says == "second" else ())
    report = Report("", {}, {}, {}, None, (first, second), (), (), (), ())
    made = plan.make(report, capture, Wanted())
    assert [each.state for each in made.items] == ["ready", "refused"]
    assert "not together with wasted-epochs" in made.items[1].why
    assert made.files[0].after == b"model.fit(x, y, epochs=1)\n"
    alone = plan.make(replace(report, findings=(second,)), capture, Wanted())
    assert [each.state for each in alone.items] == ["ready"]

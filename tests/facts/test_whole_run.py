"""The whole training as the user would run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor.diagnosis import diagnose
from fitdoctor.facts import resolve
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.whole_run import WholeRun
from tests.captures.build import Run


def short() -> Run:
    run = Run().fit(steps=50, epochs=4, epochs_planned=40, compute_ms=10, validation_ms=400, between_ms=300)
    return run.callback("Plot", hook="on_epoch_end", ms=100, saving_ms=50)


def test_every_second_of_the_training_is_there_in_the_order_of_a_run(tmp_path: Path) -> None:
    facts = resolve(short().capture(tmp_path))
    found, model = facts.get(WholeRun), facts.get(StepModel)
    assert [each.name for each in found.stretches] == [
        "imports", "set-up", "compiling", "steady steps", "validation", "between epochs", "callbacks", "saving",
    ]  # fmt: skip
    assert found.seconds.mid == pytest.approx(model.whole_s)
    assert sum(found.share(each).mid for each in found.stretches) == pytest.approx(1)
    seconds = {each.name: each.seconds.mid for each in found.stretches}
    assert seconds["steady steps"] == pytest.approx(20, rel=0.05)
    assert seconds["validation"] == pytest.approx(16)
    assert seconds["callbacks"] == pytest.approx(4)
    assert seconds["saving"] == pytest.approx(2)
    assert seconds["between epochs"] == pytest.approx(6, rel=0.02)
    assert all(each.how for each in found.stretches)


def test_what_varied_is_as_wide_in_the_whole(tmp_path: Path) -> None:
    found = {each.name: each.seconds for each in resolve(short().capture(tmp_path)).get(WholeRun).stretches}
    assert found["imports"].low == found["imports"].high, "it was seen once, and comes once"
    assert found["steady steps"].low < found["steady steps"].mid < found["steady steps"].high
    assert found["saving"].low == pytest.approx(0.8 * found["saving"].mid)


def test_a_script_of_many_calls_says_what_they_cost(tmp_path: Path) -> None:
    run = Run(exit={"reason": "finished"})
    for each in range(20):
        run.fit(steps=5, compute_ms=2, fixed_ms=40, warmup=int(each == 0), finished=True, line=12)
    found = resolve(run.calls(count=50, ms=20).capture(tmp_path)).get(WholeRun)
    names = [each.name for each in found.stretches]
    assert {"calls", "short calls"} <= {*names}
    assert names.index("steady steps") < names.index("calls")


def test_the_report_holds_it(tmp_path: Path) -> None:
    run = diagnose(short().capture(tmp_path)).run
    assert sum(each["share"]["mid"] for each in run["whole"]) == pytest.approx(1)
    assert run["whole_s"]["mid"] == pytest.approx(run["projected_s"])
    assert run["whole_s"]["low"] <= run["whole_s"]["mid"] <= run["whole_s"]["high"]


def test_without_a_training_there_is_none(tmp_path: Path) -> None:
    assert "whole" not in diagnose(Run(exit={"reason": "finished"}).capture(tmp_path)).run

"""What a rehearsal tells of the run it was made after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fitdoctor.facts import resolve
from fitdoctor.facts.rewrites import believed
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Interval
from tests.captures.build import Run

INPUT = Change("input", Interval(0.1, 0.2, 0.3), overlap=True)


def _rehearsed(folder: Path, *, baseline_ms: float, **detail: object) -> tuple[Trials, StepModel]:
    folder.mkdir(exist_ok=True)
    run = Run("torch").fit(steps=200, input_ms=20, compute_ms=20, epochs_planned=10, adapter="DataLoader", workers=0)
    run.trial("rehearsed: four", baseline_ms=baseline_ms, changed_ms=10, whole=False, **detail)
    facts = resolve(run.capture(folder))
    return facts.get(Trials), facts.get(StepModel)


def test_without_a_rehearsal_the_model_is_asked(tmp_path: Path) -> None:
    trials, model = _rehearsed(tmp_path, baseline_ms=40)
    assert believed(trials, "eight", INPUT, model) is INPUT


@pytest.mark.parametrize(
    ("baseline_ms", "stays"),
    [
        (40, 0.25),  # as long as in the run
        (80, 0.25),  # the rehearsed training was slower than the run: ten of the run's forty milliseconds
        (20, 0.5),  # it was faster: what made the run slower may stay
    ],
)
def test_the_larger_share_is_believed(tmp_path: Path, baseline_ms: float, stays: float) -> None:
    trials, model = _rehearsed(tmp_path, baseline_ms=baseline_ms)
    change = believed(trials, "four", INPUT, model)
    assert (change.part, change.rehearsed) == ("step", True)
    assert change.remaining.mid == pytest.approx(stays, rel=0.06)
    assert change.remaining.low <= change.remaining.mid <= change.remaining.high


def test_of_a_cache_the_first_epoch_stays(tmp_path: Path) -> None:
    trials, model = _rehearsed(tmp_path, baseline_ms=40)
    change = believed(trials, "four", INPUT, model, epochs=10)
    assert change.remaining.mid == pytest.approx(0.25 + 0.75 / 10, rel=0.06)


def test_epochs_that_begin_later_count(tmp_path: Path) -> None:
    """An epoch takes 8 s as it is; beginning anew takes 0.8 s longer than a step."""
    quick, model = _rehearsed(tmp_path / "quick", baseline_ms=40)
    slow, _ = _rehearsed(tmp_path / "slow", baseline_ms=40, begun_ns=810e6)
    change, longer = (believed(trials, "four", INPUT, model) for trials in (quick, slow))
    assert longer.remaining.mid - change.remaining.mid == pytest.approx(0.1, rel=0.06)
    assert longer.remaining.high > longer.remaining.mid


def test_epochs_that_begin_as_late_now_are_known_to(tmp_path: Path) -> None:
    """The first step of each epoch waits for two seconds; of that as much stays as of a step."""
    trials, model = _rehearsed(tmp_path, baseline_ms=40, begun_ns=810e6)
    change = believed(trials, "four", INPUT, replace(model, begins_s=2.0))
    longer = believed(trials, "four", INPUT, model)
    assert longer.remaining.mid - change.remaining.mid == pytest.approx(0.25 * 2.0 / 8.0, rel=0.06)

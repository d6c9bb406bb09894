"""How the same step differed from one time of the lab to another, and what that means for the next run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor.facts import resolve
from fitdoctor.facts.step_model import StepModel
from fitdoctor.model import Interval
from tests.captures.build import Run

STEP = {"unit": "ns per step"}


def lab(*baselines: float, callbacks: float | None = None) -> Run:
    run = Run(noise=0.0).fit(steps=200, compute_ms=10)
    run.trial("cached batch", changed_ms=baselines[0] + (callbacks or 0.0), cores=1.0, **STEP)
    for place, each in enumerate(baselines[1:]):
        run.trial(f"experiment {place}", baseline_ms=each, changed_ms=1.0, **STEP)
    if callbacks is not None:
        run.trial("callbacks off", baseline_ms=baselines[0] + callbacks, changed_ms=baselines[0], **STEP)
    # What takes another time by its nature is no drift.
    run.trial("workers=2", baseline_ms=500, changed_ms=300, unit="ns per batch")
    return run


def model_of(run: Run, folder: Path) -> StepModel:
    return resolve(run.capture(folder)).get(StepModel)


def test_a_steady_machine_does_not_drift(tmp_path: Path) -> None:
    model = model_of(lab(10, 10, 10, 10), tmp_path)
    assert model.drift == pytest.approx(0.0, abs=1e-6)
    promised = model.in_another_run(Interval(0.2, 0.3, 0.4))
    ends = (1 - 0.8 * 1.051, 0.3, 1 - 0.6 / 1.051)
    assert (promised.low, promised.mid, promised.high) == pytest.approx(ends, abs=1e-3), "two runs always differ"
    assert model.in_another_run(Interval.exact(0.0)) == Interval.exact(0.0)


def test_the_step_is_measured_all_through_the_lab(tmp_path: Path) -> None:
    model = model_of(lab(14, 10, 11, 9, 10), tmp_path)
    assert model.work_alone is not None
    assert model.work_alone.seconds.mid == pytest.approx(10e-3)
    assert model.work_alone.seconds.low < 10e-3 < model.work_alone.seconds.high < 14e-3


def test_drift_widens_what_is_promised_and_not_its_middle(tmp_path: Path) -> None:
    model = model_of(lab(10, 9, 11, 10, 9, 11), tmp_path)
    assert 0.05 < model.drift < 0.2
    promised = model.in_another_run(Interval(0.2, 0.3, 0.4))
    assert promised.low < 0.2
    assert promised.mid == 0.3
    assert promised.high > 0.4
    assert model.in_another_run(Interval(0.0, 0.5, 1.0)) == Interval(0.0, 0.5, 1.0)


def test_one_disturbed_experiment_is_no_drift(tmp_path: Path) -> None:
    assert model_of(lab(60, 10, 10.2, 9.9, 10.1), tmp_path).drift < 0.03


def test_callbacks_are_no_drift(tmp_path: Path) -> None:
    model = model_of(lab(10, 10, 10, 10, callbacks=5), tmp_path)
    assert model.drift == pytest.approx(0.0, abs=1e-6)
    assert model.work_alone is not None
    assert model.work_alone.seconds.mid == pytest.approx(15e-3)

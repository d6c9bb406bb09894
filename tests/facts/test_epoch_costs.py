"""What an epoch costs beside its steps, and when it is worth paying that less often."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitdoctor.diagnosis import judge
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import resolve
from fitdoctor.facts.epoch_costs import PATIENCE, EpochCosts, may_stop, rarer
from fitdoctor.facts.training import Training
from fitdoctor.model import Interval, Passed
from fitdoctor.rules import all_rules
from tests.captures.build import Run


def test_the_epochs_that_ended_are_averaged(tmp_path: Path) -> None:
    run = Run().fit(steps=20, epochs=5, epochs_planned=50, validation_ms=300, between_ms=80)
    found = resolve(run.callback("Plot", hook="on_epoch_end", ms=30).capture(tmp_path)).get(EpochCosts)
    assert (found.seen, found.validated) == (3, 3)
    assert found.validation.mid == pytest.approx(0.3)
    assert found.between.mid == pytest.approx(0.05, rel=0.02)
    assert found.between.low <= found.between.mid <= found.between.high


def test_one_epoch_is_only_roughly_known(tmp_path: Path) -> None:
    run = Run().fit(steps=20, epochs=2, epochs_planned=50, validation_ms=300)
    found = resolve(run.capture(tmp_path)).get(EpochCosts)
    assert found.seen == 1
    assert (found.validation.low, found.validation.high) == pytest.approx((0.15, 0.45))


def test_without_an_end_nothing_is_known(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence, match="no epoch was seen to its end"):
        resolve(Run().fit(steps=200).capture(tmp_path)).get(EpochCosts)


def test_a_script_that_chooses_its_epochs_is_left_alone(tmp_path: Path) -> None:
    run = Run().fit(steps=5, epochs=6, epochs_planned=400, compute_ms=2, validation_ms=90, validates=True)
    call, epoch, start, steps_end, _, end = run.tables["epochs"][3]
    run.tables["epochs"][3] = (call, epoch, start, steps_end, 0, end)
    rule = next(rule for rule in all_rules() if rule.name == "costly-validation")
    first = judge(rule, resolve(run.capture(tmp_path)))[0]
    assert isinstance(first, Passed)
    assert "says itself" in first.because


positive = st.floats(1e-4, 1e3)


@given(positive, positive, st.integers(1, 5000), st.integers(1, 20))
def test_what_is_proposed_is_shorter_even_at_worst(each: float, rest: float, epochs: int, own: int) -> None:
    found = rarer("validation", Interval(0.8 * each, each, 1.2 * each), rest, epochs, own)
    if found is None:
        # Not even a little more rarely: the next choice loses at worst.
        assert epochs <= own or 0.8 * each * epochs * (1 - own / (own + 1)) <= PATIENCE * rest * (1 + 1e-9)
        return
    assert own < found.every <= epochs
    saved = 0.8 * each * epochs * (1 - own / found.every)
    assert saved > found.late_s == pytest.approx((found.every - own) * PATIENCE * rest)
    assert found.change.once.high == found.late_s
    assert 0 <= found.change.remaining.low <= found.change.remaining.mid <= found.change.remaining.high <= 1


def test_where_nothing_stops_it_nothing_is_expected_to_be_late(tmp_path: Path) -> None:
    each = Interval(0.9, 1.0, 1.1)
    watched, fixed = (rarer("validation", each, 0.01, 1000, stops=stops) for stops in (True, False))
    assert watched is not None
    assert fixed is not None
    assert watched.every == fixed.every
    assert watched.change.once.mid == watched.late_s / 2 > fixed.change.once.mid == 0
    assert watched.change.once.high == fixed.change.once.high, "a person may stop it all the same"


@pytest.mark.parametrize(("callbacks", "stops"), [(["History", "ProgbarLogger"], False), (["EarlyStopping"], True)])
def test_who_may_stop_a_training(tmp_path: Path, callbacks: list[str], stops: bool) -> None:
    run = Run().fit(steps=20, epochs=5, epochs_planned=50, callbacks=callbacks)
    assert may_stop(resolve(run.capture(tmp_path)).get(Training)) is stops


def test_ten_ordinary_epochs_are_no_reason_to_validate_less() -> None:
    assert rarer("validation", Interval(0.09, 0.1, 0.11), 1.0, 10) is None
    found = rarer("validation", Interval(0.9, 1.0, 1.1), 0.01, 1000)
    assert found is not None
    assert 100 < found.every < 250

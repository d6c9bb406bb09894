"""The pause before the first batch of an epoch, from the steps alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import resolve
from fitdoctor.facts.epoch_starts import EpochStarts
from fitdoctor.facts.step_model import StepModel
from tests.captures.build import Run


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_the_pause_is_what_first_steps_take_longer(tmp_path: Path, backend: str) -> None:
    run = Run(backend).fit(steps=20, epochs=5, input_ms=2, compute_ms=10, pause_ms=500)
    found = resolve(run.capture(tmp_path)).get(EpochStarts)
    assert found.seen == 4
    assert found.pause.low <= 0.5 <= found.pause.high or found.pause.mid == pytest.approx(0.5, rel=0.05)


def test_the_pauses_are_no_noise(tmp_path: Path) -> None:
    run = Run(noise=0.02).fit(steps=10, epochs=8, input_ms=2, compute_ms=10, pause_ms=500)
    facts = resolve(run.capture(tmp_path))
    assert facts.get(StepModel).noise > 0.1, "a step in ten is fifty times as long"
    assert facts.get(EpochStarts).noise < 0.02


def test_without_a_pause_there_is_next_to_none(tmp_path: Path) -> None:
    run = Run().fit(steps=20, epochs=5, input_ms=2, compute_ms=10)
    assert resolve(run.capture(tmp_path)).get(EpochStarts).pause.mid < 0.002


def test_the_first_epoch_tells_nothing(tmp_path: Path) -> None:
    run = Run().fit(steps=200, input_ms=2, compute_ms=10)
    with pytest.raises(MissingEvidence, match="no second epoch"):
        resolve(run.capture(tmp_path)).get(EpochStarts)

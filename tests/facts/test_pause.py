"""Pauses between epochs that are no part of what an epoch takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor.facts import pauses, resolve
from fitdoctor.facts.training import Training
from tests.captures.build import Run


@pytest.mark.parametrize(
    ("values", "by_hooks", "expected"),
    [
        ([0.1, 0.2, 0.3], 0.0, 0.0),  # they vary
        ([2.0, 0.1, 0.1], 0.0, 1.9),  # once, far longer
        ([0.1, 2.0, 0.1], 0.0, 1.9),  # whenever it came
        ([2.0, 1.0, 0.1], 0.0, 0.0),  # twice: it may come again
        ([2.0, 0.1], 0.0, 0.0),  # one other tells nothing
        ([2.0, 0.1, 0.1], 1.0, 0.0),  # callbacks took it
        ([1.5], 0.0, 0.0),
        ([], 0.0, 0.0),
    ],
)
def test_a_stall_that_was_seen_once(values: list[float], by_hooks: float, expected: float) -> None:
    assert pauses.seen_once(values, by_hooks) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.97, 0.86, 0.02], [0.95, 0.84, 0.0]),  # data is freed at once in one epoch of three
        ([0.02, 0.03, 0.04, 0.05], [0.0] * 4),  # too short to be told from what every epoch takes
        ([0.5, 0.6, 0.9, 0.7], [0.0] * 4),  # every epoch takes that
        ([0.4, 0.02], [0.0, 0.0]),  # of two nothing tells which one is usual
        ([0.9, 0.02], [0.88, 0.0]),  # but no iterator takes so long to be made
        ([2.4], [2.35]),
        ([], []),
    ],
)
def test_epochs_that_stall_and_epochs_that_do_not(values: list[float], expected: list[float]) -> None:
    assert pauses.stalls(values) == pytest.approx(expected)


def test_stalls_that_came_more_than_once_come_again() -> None:
    assert pauses.projected([0.9, 0.0, 1.1, 0.0], 8) == pytest.approx(4.0)
    assert pauses.projected([0.9, 0.0, 0.0, 0.0], 8) == pytest.approx(0.9)
    assert pauses.projected([], 8) == 0.0


def test_one_that_was_seen_once_comes_again_where_short_epochs_of_the_lab_stood_still_too() -> None:
    lab = pauses.Lab(pauses.Counted(5, 18, 1.3), pauses.Counted(0, 18, 0.0), 0.02)
    none = pauses.Lab(pauses.Counted(0, 18, 0.0), pauses.Counted(0, 18, 0.0), 0.02)
    assert pauses.projected([0.9, 0.0], 40, lab) == pytest.approx(0.9 * 6 / 20 * 40)
    assert pauses.projected([0.9, 0.0], 40, none) == pytest.approx(0.9), "none of them did"
    assert pauses.projected([0.0, 0.0], 40, lab) == 0.0, "how long it would be nobody has seen"
    assert pauses.projected([0.9, 0.9], 2, lab) == pytest.approx(1.8), "no less than was seen"


def test_where_most_epochs_stand_still_the_lab_knows_what_they_take_otherwise() -> None:
    values = [0.9, 0.9, 0.9, 0.02, 0.9]
    lab = pauses.Lab(pauses.Counted(12, 18, 3.0), pauses.Counted(0, 18, 0.0), 0.02)
    assert sum(pauses.stalls([0.9] * 5)) == 0.0, "they could take that long"
    assert pauses.stalls(values, lab) == pytest.approx([0.88, 0.88, 0.88, 0.0, 0.88])


def test_short_epochs_that_stand_still_are_counted_beside_what_they_usually_take() -> None:
    found = pauses.Counted.among([20_000_000, 280_000_000, 60_000_000, 320_000_000], 0.02)
    assert found == pauses.Counted(2, 4, pytest.approx(0.56))


@pytest.mark.parametrize(("backend", "pause_s", "between_s"), [("tensorflow", 2.0, 0.12), ("torch", 0.0, 6 * 0.42)])
def test_only_tensorflow_is_known_to_stall_where_it_frees_old_data(
    backend: str, pause_s: float, between_s: float, tmp_path: Path
) -> None:
    """Elsewhere arrays may be cast at the beginning of an epoch, now and then in memory that has to be found first."""
    stalls = {2: 900.0, 4: 1100.0}
    run = Run(backend, noise=0.0).fit(steps=20, epochs=6, compute_ms=10, between_ms=20, finished=True, stalls_ms=stalls)
    found = resolve(run.capture(tmp_path)).get(Training).elsewhere
    assert found.get("pause", 0.0) == pytest.approx(pause_s, rel=0.01), "the first epoch had none, as was seen"
    assert found["between epochs"] == pytest.approx(between_s, rel=0.05)


def test_stalls_come_as_often_in_the_epochs_that_follow(tmp_path: Path) -> None:
    stalls = {2: 900.0, 4: 1100.0}
    run = Run("tensorflow", noise=0.0)
    run.fit(steps=20, epochs=6, epochs_planned=31, compute_ms=10, between_ms=20, stalls_ms=stalls)
    found = resolve(run.capture(tmp_path)).get(Training).elsewhere
    assert found["pause"] == pytest.approx(2.0 / 4 * 30, rel=0.01), "four were seen to their ends after the first"


def test_what_only_the_first_epoch_took_is_paid_once(tmp_path: Path) -> None:
    run = Run("tensorflow", noise=0.0)
    run.fit(steps=20, epochs=4, epochs_planned=40, compute_ms=10, between_ms=20, finished=False, stalls_ms={0: 3000.0})
    found = resolve(run.capture(tmp_path)).get(Training).elsewhere
    assert found["first epoch"] == pytest.approx(3.0, rel=0.05)
    assert found["between epochs"] == pytest.approx(40 * 0.02, rel=0.05)
    assert "pause" not in found


def test_a_first_epoch_like_the_others_is_not_spoken_of(tmp_path: Path) -> None:
    run = Run("tensorflow", noise=0.0).fit(steps=20, epochs=4, compute_ms=10, between_ms=20, validation_ms=100)
    assert "first epoch" not in resolve(run.capture(tmp_path)).get(Training).elsewhere


def test_what_a_fit_stands_still_at_its_end_is_paid_once(tmp_path: Path) -> None:
    """Freeing the last epoch's data was seen to take two seconds, in one run of twelve of the same script."""
    run = Run("tensorflow", noise=0.0, exit={"reason": "finished"})
    run.fit(steps=20, epochs=6, compute_ms=10, finished=True, ends_ms=2000)
    run.callback("Restores", ms=500, hook="on_train_end", count=1)
    found = resolve(run.capture(tmp_path)).get(Training)
    assert found.elsewhere["pause"] == pytest.approx(1.5), "what a callback takes there is its own"
    assert found.steps * found.step_s == pytest.approx(1.18, rel=0.01), "118 of 120 steps"


def test_a_fit_that_was_cut_short_has_no_end(tmp_path: Path) -> None:
    run = Run("tensorflow", noise=0.0).fit(steps=20, epochs=3, epochs_planned=6, compute_ms=10, ends_ms=2000)
    assert "pause" not in resolve(run.capture(tmp_path)).get(Training).elsewhere

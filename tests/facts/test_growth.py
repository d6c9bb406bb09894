"""The slope of step times: sure where something grows, silent where only the machine changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fitdoctor.facts import resolve
from fitdoctor.facts.growth import Growth, line
from tests.captures.build import Run


def noise(seed: int, size: int, spread: float, wave: float = 0.8) -> np.ndarray:
    """Times as they are on a shared machine: slow steps follow slow steps, and now and then one takes very long."""
    chance = np.random.default_rng(seed)
    out, here = np.empty(size), 0.0
    for place in range(size):
        here = wave * here + chance.normal(0, spread)
        out[place] = np.exp(here) * (5 if chance.random() < 0.02 else 1)
    return out


def growth(run: Run, folder: Path) -> Growth:
    return resolve(run.capture(folder)).get(Growth)


def test_the_slope_is_found_in_noise() -> None:
    places = np.arange(400.0)
    for seed in range(20):
        found = line(places, 10 * noise(seed, 400, 0.02) + 0.02 * places)
        assert found.slope.low <= 0.02 <= found.slope.high
        assert found.slope.low > 0


def test_without_one_it_is_hardly_ever_claimed() -> None:
    places = np.arange(400.0)
    claimed = sum(line(places, noise(seed, 400, 0.05)).slope.low > 0 for seed in range(200))
    assert claimed <= 4


def test_a_jump_in_the_middle_is_no_sure_slope() -> None:
    places = np.arange(400.0)
    for seed in range(20):
        found = line(places, noise(seed, 400, 0.02) + (places > 200))
        assert found.slope.low * 400 < 0.2, "of the jump"


def test_a_machine_that_becomes_slower_is_not_the_jobs_fault(tmp_path: Path) -> None:
    run = Run(noise=0.0).fit(steps=400, compute_ms=10, callbacks_ms=4, slower=0.001)
    assert growth(run, tmp_path).part == ""


def test_a_part_grows_on_top_of_a_slower_machine(tmp_path: Path) -> None:
    run = Run(noise=0.01).fit(steps=400, compute_ms=10, callbacks_ms=1, slower=0.0002, grows="callbacks", grows_us=20)
    found = growth(run, tmp_path)
    assert found.part == "callbacks"
    assert found.own.low <= 20e-6 <= found.own.high * 1.05
    assert found.excess.mid == pytest.approx(20e-6 * 200, rel=0.1)


def test_a_compiled_step_is_not_looked_at(tmp_path: Path) -> None:
    data = Run(noise=0.01).fit(steps=400, compute_ms=10, callbacks_ms=1, grows="compute", grows_us=50)
    assert growth(data, tmp_path).part == ""
    eager = Run(noise=0.01).fit(
        steps=400, compute_ms=10, callbacks_ms=1, grows="compute", grows_us=50, run_eagerly=True, snapshots=False
    )
    assert growth(eager, tmp_path).part == "work"


def test_few_steps_need_a_clear_slope(tmp_path: Path) -> None:
    run = Run(noise=0.01).fit(steps=40, compute_ms=10, callbacks_ms=1, grows="callbacks", grows_us=500)
    assert growth(run, tmp_path).part == "callbacks"
    flat = Run(noise=0.05).fit(steps=40, compute_ms=10, callbacks_ms=1)
    assert growth(flat, tmp_path).part == ""

"""The interval of a speed-up holds the truth as often as it says."""

from __future__ import annotations

import math
import random

import pytest

from fitdoctor.model import Interval
from fitdoctor.proof import statistics


def noise(rng: random.Random, outliers: float, drift: float, place: int) -> float:
    """Return by what a run is longer: as on this machine, a few per cent, slow waves, and now and then far more."""
    wave = drift * math.sin(place / 3)
    return math.exp(rng.gauss(0, 0.03) + wave + (rng.expovariate(5) if rng.random() < outliers else 0.0))


def pairs(rng: random.Random, count: int, truth: float, outliers: float = 0.0, drift: float = 0.0) -> Interval:
    before = [10 * truth * noise(rng, outliers, drift, place) for place in range(count)]
    after = [10 * noise(rng, outliers, drift, place) for place in range(count)]
    return statistics.speedup(before, after)


@pytest.mark.parametrize(("outliers", "drift"), [(0.0, 0.0), (0.0, 0.2), (0.05, 0.0), (0.1, 0.2)])
@pytest.mark.parametrize("count", [4, 6, 12])
def test_it_holds_the_truth_19_times_in_20(count: int, outliers: float, drift: float) -> None:
    rng = random.Random(7)
    held = [(found := pairs(rng, count, 1.3, outliers, drift)).low <= 1.3 <= found.high for _ in range(1500)]
    # Outliers that hit either side make an interval of few pairs wider than it need be: surer, never less sure.
    assert 0.92 <= sum(held) / len(held) <= (0.98 if outliers == 0 else 0.995)


def test_drift_that_hits_both_alike_changes_nothing() -> None:
    found = statistics.speedup([10, 20, 40, 20], [5, 10, 20, 10])
    assert found.low == pytest.approx(2)
    assert found.high == pytest.approx(2)


def test_one_run_that_was_disturbed_does_not_decide() -> None:
    steady = [10.0, 10.1, 9.9, 10.0, 10.2, 9.8]
    found = statistics.speedup([*steady, 60.0], [*[each / 2 for each in steady], 5.0])
    assert 1.9 < found.mid < 2.2


def test_more_pairs_are_surer() -> None:
    few = [statistics.half_width(pairs(random.Random(seed), 4, 1.3)) for seed in range(50)]
    many = [statistics.half_width(pairs(random.Random(seed), 16, 1.3)) for seed in range(50)]
    assert sum(many) < 0.6 * sum(few)


def test_one_pair_has_no_interval() -> None:
    with pytest.raises(ValueError, match="no interval"):
        statistics.speedup([2.0], [1.0])
    assert statistics.middle([3.0]) == Interval(3.0, 3.0, 3.0)

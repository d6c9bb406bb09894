"""Two runs side by side: what may be compared, how sure the difference is, what fails a build."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitdoctor import pipeline, units
from fitdoctor.errors import UsageError
from fitdoctor.facts import rows
from fitdoctor.facts.trials import BETWEEN_RUNS
from fitdoctor.model import Interval, Report
from fitdoctor.proof.compare import Comparison, compare, slowdown
from fitdoctor.report import comparison
from fitdoctor.report import json as report_json
from tests.captures.build import Run
from tests.report import samples

NAMES = ("a", "b")


def report(folder: Path, run: Run) -> Report:
    return pipeline.diagnose_file(run.capture(folder).path)


def pair(folder: Path, before: float, after: float, **changes: Any) -> Comparison:
    """Compare two runs of the same script with steps of so many milliseconds."""
    both = [report(folder, Run(**changes).fit(steps=300, compute_ms=ms)) for ms in (before, after)]
    return compare(*both, NAMES)


def test_a_step_that_takes_longer(tmp_path: Path) -> None:
    found = pair(tmp_path, 10, 13)
    assert found.slowdown.mid == pytest.approx(1.3, rel=0.02)
    assert found.slower_than(0.05)
    assert not found.slower_than(0.5)
    assert found.verdict.startswith("slower: a step takes 1.3")
    assert pair(tmp_path, 13, 10).verdict.startswith("faster: a step takes 0.7")


def test_the_range_is_never_narrower_than_two_runs_of_the_same_are_apart(tmp_path: Path) -> None:
    found = pair(tmp_path, 10, 10, noise=0.0001)
    assert found.slowdown.high / found.slowdown.mid >= math.exp(BETWEEN_RUNS)
    assert found.slowdown.mid / found.slowdown.low >= math.exp(BETWEEN_RUNS)
    assert found.verdict.startswith("no difference that two runs can show")
    assert "5.1 %" in found.how


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 1))
def test_more_noise_is_a_wider_range(before: float, after: float, one: float, other: float, drift: float) -> None:
    exact = slowdown(Interval.exact(before), Interval.exact(after), 0.0)
    wide = slowdown(
        Interval(before * (1 - one), before, before * (1 + one)), Interval(after * (1 - other), after, after * 2), drift
    )
    assert wide.low <= exact.mid * (1 + 1e-9)
    assert wide.high >= exact.mid * (1 - 1e-9)
    assert exact.mid == pytest.approx(after / before)


def test_a_run_of_unknown_length_fails_nothing() -> None:
    found = slowdown(Interval(0.0, 10.0, math.inf), Interval(15.0, 16.0, 17.0), BETWEEN_RUNS)
    assert found.high == math.inf
    assert found.low == 0.0


def step_of_a_run(drawn: np.random.Generator, steps: int, spread: float, alike: float) -> Interval:
    """Return the step time of a run whose neighbouring steps resemble each other, on a machine that differs by run."""
    noise = drawn.normal(0, spread * math.sqrt(1 - alike**2), steps)
    wave = [drawn.normal(0, spread)]
    for each in noise:
        wave.append(alike * wave[-1] + each)
    # Two runs of the same are `BETWEEN_RUNS` apart 19 times in 20.
    factor = math.exp(drawn.normal(0, BETWEEN_RUNS / 2 / math.sqrt(2)))
    return rows.means({"step": 10 * factor * np.exp(wave[1:])}, np.ones(steps))["step"]


@pytest.mark.parametrize(
    ("steps", "spread", "alike"), [(200, 0.02, 0.8), (150, 0.1, 0.8), (60, 0.1, 0.8), (30, 0.1, 0.5)]
)
def test_noise_fails_no_build(steps: int, spread: float, alike: float) -> None:
    """Pairs of runs of the same script, independent of each other: see the table in docs/html-report.md."""
    drawn = np.random.default_rng(11)
    pairs = [[step_of_a_run(drawn, steps, spread, alike) for _ in range(2)] for _ in range(400)]
    lows = [slowdown(*pair, BETWEEN_RUNS).low for pair in pairs]
    assert sum(low > 1.05 for low in lows) <= 1
    assert sum(low > 1.0 for low in lows) <= 6


def test_what_other_programs_take_fails_no_build(tmp_path: Path) -> None:
    """The very same script took 20.6 ms a step, and 81.6 ms while seven threads wanted the two cores."""
    quiet = report(tmp_path, Run(cores=2).fit(steps=300, compute_ms=20, cores_busy=1.2, load=1.0))
    crowded = report(tmp_path, Run(cores=2).fit(steps=300, compute_ms=80, cores_busy=0.3, load=7.2))
    found = compare(quiet, crowded, NAMES)
    assert found.slowdown.mid == pytest.approx(4.0, rel=0.05)
    assert found.slowdown.low < 1.2
    assert not found.slower_than(0.05)
    assert found.verdict.startswith("not judged, since other programs took the cores")
    assert found.disturbed == ("after: 3.6 threads wanted each core, and the training had 0.3 of 2 cores",)
    assert "not judged" in comparison.gate(found, 0.05)
    back = compare(crowded, quiet, NAMES)
    assert back.slowdown.high > 0.8
    assert "not judged" in back.verdict


def test_a_training_that_crowds_the_machine_itself_is_judged(tmp_path: Path) -> None:
    before = report(tmp_path, Run(cores=2).fit(steps=300, compute_ms=20, cores_busy=1.2, load=1.0))
    after = report(tmp_path, Run(cores=2).fit(steps=300, compute_ms=40, cores_busy=1.95, load=9.0))
    found = compare(before, after, NAMES)
    assert found.disturbed == ()
    assert found.slower_than(0.05)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"script": "other.py"}, "script: train.py before, other.py after"),
        ({"kind": "loop"}, "kind of training: fit before, loop after"),
        ({"backend": "jax"}, "backend: tensorflow before, jax after"),
        ({"batch_size": 64}, "batch size: 32 before, 64 after"),
        ({"parameters": 20_000}, "number of weights: 10,000 before, 20,000 after"),
        ({"layers": {"Dense": 3}}, "layers: 2 Dense before, 3 Dense after"),
        ({"ranks": 2}, "number of processes: 1 before, 2 after"),
        ({"machine": {"cpu": "A", "cores": 4, "gpus": ["H100"]}}, "GPUs: none before, H100 after"),
        ({"machine": {"cpu": "A", "cores": 8, "gpus": []}}, "cores: 4 before, 8 after"),
        ({"machine": {"cpu": "B", "cores": 4, "gpus": []}}, "processor: A before, B after"),
    ],
)
def test_runs_that_cannot_be_compared(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    one = report(tmp_path, Run().fit())
    one = dataclasses.replace(one, run={**one.run, "machine": {"cpu": "A", "cores": 4, "gpus": []}})
    other = dataclasses.replace(one, run={**one.run, **change})
    with pytest.raises(UsageError, match="cannot be compared") as error:
        compare(one, other, NAMES)
    assert said in str(error.value)
    assert "--anyway" in str(error.value)
    found = compare(one, other, NAMES, anyway=True)
    assert said in found.obstacles


def test_what_may_be_the_very_change_is_a_note(tmp_path: Path) -> None:
    one = report(tmp_path, Run().fit())
    changed = {"versions": {"keras": "3.16.0"}, "command": ["train.py", "--fast"], "mode": "whole", "parameters": None}
    found = compare(one, dataclasses.replace(one, run={**one.run, **changed}), NAMES)
    told = "; ".join(found.notes)
    for word in (
        "keras 3.15.1 before, 3.16.0 after",
        "none before, --fast after",
        "capped before",
        "number of weights",
    ):
        assert word in told


def test_a_run_without_steps_is_refused(tmp_path: Path) -> None:
    one = report(tmp_path, Run().fit())
    with pytest.raises(UsageError, match="b has no steady step"):
        compare(one, samples.EMPTY, NAMES)


def test_findings_that_went_and_came(tmp_path: Path) -> None:
    one = report(tmp_path, Run(account={}).fit(steps=400, callbacks_ms=10).callback("Watch", ms=10))
    other = report(tmp_path, Run(account={}).fit(steps=400))
    assert "slow-callback" in compare(one, other, NAMES).gone
    assert "slow-callback" in compare(other, one, NAMES).new
    assert "slow-callback" in compare(one, one, NAMES).kept


def test_a_report_as_json_says_the_same_as_its_capture(tmp_path: Path) -> None:
    captures = [Run().fit(compute_ms=ms, cores_busy=1.0).capture(tmp_path).path for ms in (10, 20)]
    file = tmp_path / "before.json"
    file.write_text(report_json.dumps(pipeline.diagnose_file(captures[0])), encoding="utf-8")
    direct = pipeline.compare_files(*captures)
    read = pipeline.compare_files(str(file), captures[1])
    assert read.slowdown == direct.slowdown
    assert read.memory == direct.memory
    assert read.obstacles == ()


def test_as_words_and_as_data(tmp_path: Path) -> None:
    found = pair(tmp_path, 10, 14)
    text = comparison.text(found, 0.05)
    assert text.startswith("Slower: a step takes 1.4")
    assert text.endswith("FAILED: all of the range lies above the 5.0 % allowed")
    assert "moving-block bootstrap" in text
    wide = comparison.text(found, 0.05, 200)
    assert wide == text
    narrow = comparison.text(found, 0.05, 80)
    table = narrow.split("\n\n")[2].split("\n")
    assert [line.split()[0] for line in table[:2]] == ["before", "a"]
    assert all(len(line) <= 80 for line in table)
    # Every number with its range, here too.
    step = found.before.run["step_ms"]
    assert units.duration_range(Interval(step["low"], step["mid"], step["high"]).scale(1e-3)) in narrow
    data = json.loads(comparison.dumps(found, 0.05))
    assert data["schema"] == "fitdoctor.compare/1"
    assert data["failed"] is True
    assert data["comparable"] is True
    assert data["slowdown"]["low"] > 1.05
    close = pair(tmp_path, 10, 10.6)
    assert not close.slower_than(0.05)
    assert "two runs of the same could differ by as much" in comparison.gate(close, 0.05)
    assert json.loads(comparison.dumps(close))["failed"] is None

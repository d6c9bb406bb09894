"""What was compiled again: which of it counts, why it happened, and how it goes on."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.diagnosis import diagnose
from fitdoctor.facts import resolve
from fitdoctor.facts.again import Again, growth
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Steps
from tests.captures.build import MS, Run


def again(run: Run, folder: Path) -> tuple[Again, ...]:
    return resolve(run.capture(folder)).get(Training).again


def loop(**more: Any) -> Run:
    return Run(noise=0.0).fit(kind="loop", compiled=True, compute_ms=10, **more)


def test_what_the_first_steps_compile_does_not_count(tmp_path: Path) -> None:
    assert again(loop().traced(times=0), tmp_path) == ()


def test_every_function_and_every_reason_is_told_apart(tmp_path: Path) -> None:
    run = loop().traced("step", times=20, ms=100)
    run.traced("step", times=10, ms=300, cause="shape", argument="x", value="float32[{}]")
    run.traced("other", times=5, ms=10, defined=30)
    found = {(each.name, each.cause): each for each in again(run, tmp_path)}
    assert {key: each.count for key, each in found.items()} == {
        ("step", "value"): 20,
        ("step", "shape"): 10,
        ("other", "value"): 5,
    }
    assert found["step", "shape"].seconds == pytest.approx(3.0)
    assert (found["step", "value"].was, found["step", "value"].now) == ("19", "20")
    assert found["step", "value"].numbers == tuple(range(1, 21))


def test_a_step_that_takes_longer_for_it_is_part_of_what_it_costs(tmp_path: Path) -> None:
    (found,) = again(loop().traced(times=10, ms=100, longer_ms=50), tmp_path)
    assert found.each_s == pytest.approx(0.15, rel=0.01)
    assert not found.mostly


def test_where_every_step_is_traced_nobody_knows_what_one_takes_without(tmp_path: Path) -> None:
    run = loop(steps=60).traced(times=50, ms=100, every=1)
    (found,) = again(run, tmp_path)
    assert (found.always, found.mostly) == (False, True)
    capture = run.capture(tmp_path)
    steps = next(iter(capture.steps.values()))
    steps.flags[:] |= Steps.WARMUP
    facts = resolve(capture)
    (found,) = facts.get(Training).again
    assert found.always
    (finding,) = diagnose(capture).findings
    assert finding.cost.saving.high > 0.97, "all of a step may be the first run of what was just traced"
    assert finding.cost.saving.low < 0.93


def test_a_second_trace_without_the_variables_of_the_first_is_no_habit(tmp_path: Path) -> None:
    run = loop().traced(times=0)
    late = run.tables["steps"][20][4] + 1
    detail = '{"first": false, "changed": []}'
    run._add("compiles", 1, "trace", "train_step", late, 100 * MS, "train.py", 3, detail)
    assert again(run, tmp_path) == ()


def test_a_new_model_is_compiled_for_the_first_time(tmp_path: Path) -> None:
    run = Run()
    for number in range(1, 6):
        run.fit(steps=20, finished=True, model_number=number).traced("multi_step_on_iterator", times=0, cause="rebuilt")
    assert again(run, tmp_path) == ()
    run = Run()
    for _ in range(5):
        run.fit(steps=20, finished=True, model_number=1).traced("multi_step_on_iterator", times=0, cause="rebuilt")
    (found,) = again(run, tmp_path)
    assert (found.count, found.cause) == (4, "rebuilt")


def test_what_each_call_of_fit_traces_for_itself_belongs_to_the_call(tmp_path: Path) -> None:
    run = Run()
    for _ in range(5):
        run.fit(steps=20, finished=True, model_number=1).traced("slice_batch", times=0, cause="rebuilt", defined=0)
    assert again(run, tmp_path) == ()


def test_compiling_again_is_counted_once(tmp_path: Path) -> None:
    """Neither as what is paid once nor as the fixed cost of a call."""
    run = Run(account={"compiling": 4 * 0.5 + 0.5}, noise=0.0)
    for _ in range(5):
        run.fit(steps=20, finished=True, model_number=1, warmup=0, fixed_ms=600)
        run.traced("multi_step_on_iterator", times=0, cause="rebuilt", ms=500)
    found = resolve(run.capture(tmp_path)).get(Training)
    assert found.elsewhere["compiling again"] == pytest.approx(2.0, rel=0.01)
    assert found.elsewhere["compiling"] == pytest.approx(0.5, rel=0.01)
    assert found.fixed_per_call is not None
    assert found.fixed_per_call.mid < 0.25, "0.1 s and, in the first call, what it compiled"


def test_a_run_in_which_every_step_compiles_is_diagnosed(tmp_path: Path) -> None:
    run = Run(noise=0.0).fit(kind="loop", compiled=True, compute_ms=1, warmup=200)
    capture = run.traced(times=190, every=1, ms=300).capture(tmp_path)
    model = resolve(capture).get(StepModel)
    assert model.elsewhere["compiling again"] == pytest.approx(57.0, rel=0.01)
    report = diagnose(capture)
    assert report.findings[0].rule == "retracing"
    assert "tracing and compiling the same functions again takes" in report.headline.lower()


# --- how it goes on -----------------------------------------------------------------------------------


def test_a_habit_on_every_turn_goes_on() -> None:
    found = growth(list(range(1, 101)), 100, 10_000, tuple(range(100)))
    assert found.mid == pytest.approx(100.0)
    assert 10 < found.low < found.mid


def test_what_stopped_does_not_come_again() -> None:
    assert growth(list(range(40)), 1000, 100_000, tuple(range(40))).mid == pytest.approx(1.0)


def test_a_few_times_are_no_habit() -> None:
    assert growth([10, 500, 990], 1000, 100_000).mid == 1.0


def test_a_run_that_was_seen_to_its_end_has_nothing_ahead() -> None:
    found = growth(list(range(100)), 100, 100)
    assert (found.low, found.mid, found.high) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("lengths", [30, 100, 300])
def test_lengths_that_come_by_chance_are_projected_between_what_was_seen_and_all_there_are(lengths: int) -> None:
    """Drawn from so many lengths, watched for 200 steps of 20 000."""
    inside = 0
    for seed in range(20):
        chance = random.Random(seed)
        drawn = [chance.randint(1, lengths) for _ in range(20_000)]
        new = sorted({each: place for place, each in reversed(list(enumerate(drawn)))}.values())
        seen = [place for place in new if 2 <= place < 200]
        found = growth(seen, 200, 20_000, [float(drawn[place]) for place in seen])
        truth = len(new) / len(seen)
        inside += found.low <= truth * 1.05 and truth <= found.high * 1.05 + 0.1
        assert found.mid <= 1.6 * truth, "never far more than there are"
        assert found.mid >= truth / 1.6, "nor far less"
    assert inside >= 18


def test_data_that_nobody_shuffles_shows_the_same_in_every_epoch() -> None:
    """An epoch of 32 steps was watched, 22 of which compiled for a length they were the first to have."""
    seen = [2.0, 3, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 18, 19, 21, 23, 24, 25, 28, 29, 31]
    assert growth(seen, 32, 128).mid == pytest.approx(2.0, rel=0.2)
    found = growth(seen, 32, 128, anew=32)
    assert found.mid == pytest.approx(1.0)
    assert found.high > 2, "unless the data itself is shuffled"

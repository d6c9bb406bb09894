from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import resolve, rows
from fitdoctor.facts.step_model import FRESH, StepModel
from fitdoctor.model import PARTS, Change, Interval, Steps
from tests.captures.build import Run


def model(run: Run, folder: Path) -> StepModel:
    return resolve(run.capture(folder)).get(StepModel)


def mids(found: StepModel) -> dict[str, float]:
    return {part: round(found.parts[part].mid * 1e3, 3) for part in PARTS}


def assert_sums(found: StepModel) -> None:
    assert sum(found.parts[part].mid for part in PARTS) == pytest.approx(found.step.mid, rel=1e-12)
    assert set(found.parts) == set(PARTS)


def test_tensorflow_reads_the_clocks_inside_the_graph(tmp_path: Path) -> None:
    found = model(
        Run(noise=0).fit(steps=200, input_ms=6, compute_ms=10, host_ms=2, callbacks_ms=1, sync_ms=0.5, other_ms=0.5),
        tmp_path,
    )
    assert mids(found) == {
        "input": 6, "transfer": 0, "compute": 10, "host": 2, "callbacks": 1, "sync": 0.5, "other": 0.5,
    }  # fmt: skip
    assert_sums(found)
    assert found.gaps == {}
    assert "inside the compiled step" in found.how["input"]
    assert found.how["transfer"] == "no separate device memory"


def test_windows_with_warm_up_are_left_out(tmp_path: Path) -> None:
    # The first window holds two rows 20 times as long; only the others count.
    found = model(Run(noise=0).fit(steps=100, input_ms=5, compute_ms=5, warmup=2), tmp_path)
    assert found.step.mid == pytest.approx(0.010)


def test_tensorflow_without_clocks_does_not_show_a_zero_as_input(tmp_path: Path) -> None:
    found = model(Run().fit(steps=100, compute_ms=10, snapshots=False), tmp_path)
    assert found.how["input"] == "not seen"
    with pytest.raises(MissingEvidence, match="fetched inside the compiled step"):
        found.need("compute", "input")
    assert_sums(found)


def test_clocks_that_exceed_the_call_around_them_leave_no_negative_part(tmp_path: Path) -> None:
    run = Run(noise=0).fit(steps=200, input_ms=6, compute_ms=10)
    run.tables["inside"] = [(c, s, n, int(w * 1.05), int(k * 1.05), p) for c, s, n, w, k, p in run.tables["inside"]]
    found = model(run, tmp_path)
    assert found.parts["host"].mid == pytest.approx(0, abs=1e-9)
    assert found.parts["input"].mid == pytest.approx(0.006, rel=0.01)
    assert_sums(found)


def test_jax_splits_what_the_device_did_not_fill(tmp_path: Path) -> None:
    found = model(
        Run("jax", noise=0).fit(steps=300, input_ms=4, compute_ms=10, host_ms=1, callbacks_ms=1, other_ms=1),
        tmp_path,
    )
    assert mids(found) == {
        "input": 4, "transfer": 0, "compute": 10, "host": 1, "callbacks": 1, "sync": 0, "other": 1,
    }  # fmt: skip
    assert_sums(found)
    assert not found.works_ahead
    assert "sampled steps" in found.how["compute"]


def test_jax_input_that_passes_while_the_device_computes_is_hidden(tmp_path: Path) -> None:
    run = Run("jax", noise=0).fit(steps=300, input_ms=4, compute_ms=10, host_ms=0.5)
    # The same run with everything overlapped: a step lasts as long as the device, and a little more.
    rows = run.tables["steps"]
    run.tables["steps"] = [(*row[:5], 11_000_000, *row[6:]) for row in rows]
    found = model(run, tmp_path)
    assert found.parts["compute"].mid == pytest.approx(0.010)
    assert found.parts["input"].mid < 0.001
    assert found.works_ahead
    assert_sums(found)
    overlap = found.with_change(Change("input", Interval.exact(1.0), overlap=True))
    assert overlap.saving().high == pytest.approx(0.0, abs=1e-9)


def test_jax_that_runs_inside_its_launch_says_so(tmp_path: Path) -> None:
    run = Run("jax", noise=0).fit(steps=300, input_ms=4, compute_ms=10)
    run.tables["drained"] = [(c, s, int(k * 0.95), k) for c, s, _, k in run.tables["drained"]]
    found = model(run, tmp_path)
    assert found.parts["compute"].mid == pytest.approx(0.010)
    assert found.parts["host"].mid == 0
    assert "inside the launch" in found.how["compute"]
    assert "host" in found.gaps


def test_jax_without_samples_does_not_know_the_device_time(tmp_path: Path) -> None:
    found = model(Run("jax").fit(steps=100, drains=False), tmp_path)
    assert "compute" in found.gaps


def test_torch_takes_the_columns_as_they_are(tmp_path: Path) -> None:
    found = model(Run("torch", noise=0).fit(steps=100, input_ms=3, compute_ms=7, other_ms=1), tmp_path)
    assert mids(found)["input"] == 3
    assert mids(found)["compute"] == 7
    assert mids(found)["other"] == 1
    assert_sums(found)


def test_transfer_on_an_accelerator_is_unknown_not_zero(tmp_path: Path) -> None:
    run = Run("torch", environment={"cores": 4, "gpus": [{"index": 0, "name": "a"}]}).fit(steps=100)
    assert "transfer" in model(run, tmp_path).gaps


def test_noisy_steps_widen_the_interval(tmp_path: Path) -> None:
    calm = model(Run(noise=0.01).fit(steps=300), tmp_path)
    wild = model(Run(noise=0.2).fit(steps=300), tmp_path)
    assert wild.step.high - wild.step.low > 5 * (calm.step.high - calm.step.low)
    assert wild.noise > calm.noise


def test_the_interval_holds_the_truth_although_steps_resemble_their_neighbours(tmp_path: Path) -> None:
    held = 0
    for seed in range(40):
        run = Run(noise=0.1)
        run._random.seed(seed)
        step = model(run.fit(steps=300, compute_ms=10), tmp_path).step
        # exp of a stationary normal wave: mean of the log-normal with variance 0.01 / (1 - 0.64)
        held += step.low <= 0.010 * 2.718281828 ** (0.01 / 0.36 / 2) <= step.high
    assert held >= 34


def test_overlap_is_bounded_by_the_cores(tmp_path: Path) -> None:
    overlap = Change("input", Interval.exact(1.0), overlap=True)
    turns = {"steps": 300, "input_ms": 5, "compute_ms": 5, "dataset_options": {"autotune": False}}
    free = model(Run(noise=0, cores=2).fit(cores_busy=0.5, **turns), tmp_path)
    full = model(Run(noise=0, cores=2).fit(cores_busy=2.0, **turns), tmp_path)
    unknown = model(Run(noise=0, cores=2).fit(**turns), tmp_path)
    assert unknown.with_change(overlap).step.mid == pytest.approx(0.005)
    assert unknown.with_change(overlap).step.high == pytest.approx(0.0075)
    assert free.with_change(overlap).step.mid == pytest.approx(0.005)
    assert free.with_change(overlap).step.high == pytest.approx(0.005, rel=0.01)
    assert full.with_change(overlap).step.high == pytest.approx(0.010, rel=0.01)


def test_epoch_level_changes_save_too(tmp_path: Path) -> None:
    run = Run(noise=0, account={}).fit(steps=100, epochs=3, validation_ms=1000, compute_ms=10)
    after = model(run, tmp_path).with_change(Change("validation", Interval(0.4, 0.5, 0.6)))
    assert after.saving().mid == pytest.approx(0.25, rel=0.02)
    assert after.speedup().mid == pytest.approx(1 / 0.75, rel=0.02)


def test_a_speed_up_may_leave_out_what_comes_before_the_training(tmp_path: Path) -> None:
    # One second of steps, and one before them that no fix shortens.
    run = Run(noise=0, account={"imports": 0.75, "set-up": 0.25}).fit(steps=100, compute_ms=10)
    after = model(run, tmp_path).with_change(Change("work", Interval.exact(0.5)))
    assert after.speedup().mid == pytest.approx(1 / 0.75, rel=0.02)
    assert after.speedup(without=("imports", "set-up")).mid == pytest.approx(2.0, rel=0.02)
    assert after.speedup(without=("imports", "set-up", "no such phase")).mid == pytest.approx(2.0, rel=0.02)


def test_a_faster_step_does_not_help_a_pipeline_that_cannot_keep_up(tmp_path: Path) -> None:
    ahead = model(Run(noise=0, account={}).fit(steps=100, input_ms=4, compute_ms=6), tmp_path)
    assert ahead.input_bound
    faster = ahead.with_change(Change("compute", Interval.exact(0.5)))
    assert faster.step.mid == pytest.approx(0.010)
    assert faster.saving().mid == pytest.approx(0)
    # Once the input is cheaper, the faster step counts.
    assert faster.with_change(Change("input")).step.mid == pytest.approx(0.006)


def test_two_sides_that_were_in_each_others_way_no_longer_are(tmp_path: Path) -> None:
    # Alone the loader takes 13 ms and the step 4 ms; together they take 20 ms, though there are cores enough for both.
    run = Run(noise=0, cores=4, account={}).fit(steps=300, input_ms=12, compute_ms=8)
    run.trial("loader alone", changed_ms=13, cores=1.0).trial("cached batch", changed_ms=4, cores=1.5)
    found = model(run, tmp_path)
    assert found.with_change(Change("input", Interval.exact(1.0))).step.mid == pytest.approx(0.020)
    after = found.with_change(Change("input", Interval.exact(0.0)))
    assert after.step.mid == pytest.approx(0.004), "as if there were no loader"
    assert after.step.high == pytest.approx(0.020 * 4 / 13), "at worst in proportion"
    half = found.with_change(Change("input", Interval.exact(0.5)))
    assert half.step.mid == pytest.approx(0.0065 + 0.007 / 2)


def test_what_a_fix_costs_once_weighs_on_short_trainings(tmp_path: Path) -> None:
    short = model(Run(noise=0, account={}).fit(steps=100, compute_ms=100), tmp_path)
    change = short.change_by_compiling(Interval(0.1, 0.1, 0.1), 1.0, instead=False)
    assert change.once == FRESH
    # Of 10 seconds 9 would be saved, but for 2 seconds of compiling.
    assert short.with_change(change).saving().mid == pytest.approx(0.7, rel=0.03)
    assert short.with_change(change).whole_s == pytest.approx(3.0, rel=0.03)
    assert short.change_by_compiling(Interval(0.1, 0.1, 0.1), None).once.high == 0
    slower = short.with_change(short.change_by_compiling(Interval(0.9, 0.9, 0.9), 5.0))
    assert slower.saving() == Interval.exact(0.0)


def test_what_is_compiled_anyway_is_not_paid_twice(tmp_path: Path) -> None:
    run = model(Run(noise=0, account={"compiling": 1.5}).fit(steps=100, compute_ms=100), tmp_path)
    assert run.change_by_compiling(Interval(0.1, 0.1, 0.1), 2.0).once.mid == pytest.approx(2.0 - 1.5 / FRESH.mid)
    assert run.change_by_compiling(Interval(0.1, 0.1, 0.1), 0.5).once == Interval.exact(0.0)
    assert run.change_by_compiling(Interval(0.1, 0.1, 0.1), 2.0, instead=False).once == FRESH.scale(2.0)


def test_a_pipeline_that_only_hiccups_does_not_bound_the_step(tmp_path: Path) -> None:
    ahead = model(Run(noise=0, account={}).fit(steps=100, input_ms=0.2, compute_ms=9.8), tmp_path)
    assert not ahead.input_bound
    assert ahead.with_change(Change("compute", Interval.exact(0.5))).step.mid == pytest.approx(0.0051)


def test_waits_for_the_device_are_shared_with_the_steps_that_were_left_alone() -> None:
    # Two epochs of JAX: 10 steps launched in 1 ms each, of which some were left alone; then 10 ms of waiting for all.
    launch, wait = 1_000_000, 10_000_000
    flags = [0, Steps.RESTED, Steps.CUT, Steps.RESTED, 0, Steps.CUT]
    count = [4, 6, 0, 9, 1, 0]
    wall = [each * launch if each else wait for each in count]
    sync = [wait if flag == Steps.CUT else 0 for flag in flags]
    zero = [0] * 6
    columns = ([0, 0, 0, 1, 1, 1], zero, count, zero, wall, zero, zero, zero, zero, sync, flags)
    seen = rows.observed(Steps(*(np.array(column, dtype=np.int64) for column in columns)))
    assert seen.count.tolist() == [4, 0, 1, 0]
    assert seen.sync_ns.tolist() == [0, 4_000_000, 0, 1_000_000]
    assert seen.wall_ns.sum() / seen.count.sum() == 2 * launch, "as long as all steps are on average"


def test_pauses_of_tensorflow_become_shorter_with_the_epochs() -> None:
    """Ten seconds of steps, half of which go, and two of pauses."""
    second = Interval.exact(1.0)
    parts = {part: second if part == "compute" else Interval.exact(0.0) for part in PARTS}
    model = StepModel(second, parts, planned_steps=10.0, elsewhere={"pause": 2.0}, pauses_follow=True)
    faster = model.with_change(Change("compute", Interval.exact(0.5)))
    assert faster.elsewhere["pause"] == pytest.approx(1.0)
    saving = faster.saving()
    assert (saving.low, saving.mid) == pytest.approx((5 / 12, 6 / 12)), "at worst they stay"
    others = replace(model, pauses_follow=False).with_change(Change("compute", Interval.exact(0.5)))
    assert others.elsewhere["pause"] == 2.0


def test_pauses_become_no_longer_where_another_part_is_known_better() -> None:
    """What a fix of one part saves, at best, is not more because less is known of another."""

    def at_best(compute: Interval) -> float:
        parts = {**dict.fromkeys(PARTS, Interval.exact(0.0)), "compute": compute, "host": Interval(0.0, 1.0, 1.0)}
        model = StepModel(Interval.exact(2.0), parts, elsewhere={"pause": 1.0}, pauses_follow=True)
        return model.with_change(Change("host", Interval(0.0, 1.0, 1.0))).saving().high

    assert at_best(Interval.exact(1.0)) == at_best(Interval(0.0, 1.0, 2.0)) == pytest.approx(0.5)

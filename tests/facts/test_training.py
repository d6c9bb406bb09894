from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import resolve
from fitdoctor.facts.callback_costs import CallbackCosts
from fitdoctor.facts.compile_log import CompileLog
from fitdoctor.facts.host_use import HostUse
from fitdoctor.facts.training import Training
from tests.captures.build import MS, Run


def training(run: Run, folder: Path) -> Training:
    return resolve(run.capture(folder)).get(Training)


def test_a_capped_fit_is_projected_to_its_planned_end(tmp_path: Path) -> None:
    found = training(Run().fit(steps=100, epochs=2, epochs_planned=30, compute_ms=10), tmp_path)
    assert (found.epochs, found.steps_per_epoch, found.planned_steps) == (30, 100, 3000)
    assert found.steps == 198
    assert found.step_s == pytest.approx(0.010, rel=0.05)
    # 30 s of steps, 4 s once
    assert found.whole_s == pytest.approx(34, rel=0.05)


def test_a_loop_that_says_its_length_is_projected_to_its_end(tmp_path: Path) -> None:
    run = Run().fit(steps=100, kind="loop", compute_ms=10, planned_steps=1000).calls(count=50, ms=20)
    run.meta["account"]["between epochs"] = 0.5
    found = training(run, tmp_path)
    assert found.planned_steps == 1000
    assert not any("length" in gap.what for gap in found.gaps)
    assert found.elsewhere["imports"] > 0, "what is paid once is weighed against the whole loop"
    assert found.elsewhere["short calls"] == pytest.approx(10.0, rel=0.05)
    assert found.elsewhere["between epochs"] == pytest.approx(5.0)
    silent = training(Run().fit(steps=100, kind="loop", compute_ms=10), tmp_path)
    assert silent.planned_steps == 100
    assert [gap.what for gap in silent.gaps] == ["the length of the loop"]
    assert "imports" not in silent.elsewhere


def test_a_stall_between_two_passes_of_a_loop_is_not_taken_to_come_again(tmp_path: Path) -> None:
    """Three times from one pass to the next: 0.1 s, 2.1 s, 0.1 s; in ten times as many steps there are 30."""
    run = Run(noise=0.0).fit(steps=50, epochs=4, kind="loop", compute_ms=10, between_ms=100, planned_steps=2000)
    starts = 4
    run.tables["steps"] = [
        (*row[:starts], row[starts] + (2000 * MS if row[1] >= 2 else 0), *row[starts + 1 :])
        for row in run.tables["steps"]
    ]
    run.meta["account"]["between epochs"] = 2.3
    found = training(run, tmp_path).elsewhere
    assert found["between epochs"] == pytest.approx(30 * 0.1, rel=0.01)
    assert found["pause"] == pytest.approx(2.0, rel=0.01)


def test_epochs_of_unknown_length_are_a_gap(tmp_path: Path) -> None:
    found = training(Run().fit(steps=100, steps_per_epoch=None, epochs_planned=5), tmp_path)
    assert found.steps_per_epoch is None
    assert found.planned_steps == 500
    assert [gap.what for gap in found.gaps] == ["validation and the time between epochs", "steps per epoch"]


def test_a_seen_epoch_tells_its_length(tmp_path: Path) -> None:
    found = training(Run().fit(steps=40, epochs=3, steps_per_epoch=None, epochs_planned=10), tmp_path)
    assert found.steps_per_epoch == 40
    assert found.planned_steps == 400


def test_per_epoch_costs_are_kept_apart_and_projected(tmp_path: Path) -> None:
    run = Run().fit(steps=50, epochs=3, epochs_planned=10, validation_ms=400, between_ms=300)
    run.callback("Plot", hook="on_epoch_end", ms=100, count=3, saving_ms=50)
    found = training(run, tmp_path).elsewhere
    assert found["validation"] == pytest.approx(4.0)
    assert found["epoch callbacks"] == pytest.approx(1.0)
    assert found["saving"] == pytest.approx(0.5)
    assert found["between epochs"] == pytest.approx(1.5, rel=0.01)


def test_tracing_the_validation_step_happens_once(tmp_path: Path) -> None:
    run = Run().fit(steps=50, epochs=1, warmup=2, finished=True, validation_ms=0)
    end = run.clock
    run.tables["epochs"][0] = (1, 0, run.tables["epochs"][0][2], end, 900_000_000, end + 900_000_000)
    run.compiled("test_function", ms=700)
    assert training(run, tmp_path).elsewhere["validation"] == pytest.approx(0.2)


def test_the_expensive_fit_leads_and_the_other_is_kept(tmp_path: Path) -> None:
    run = Run().fit(steps=50, line=3, finished=True).fit(steps=50, epochs_planned=40, line=8)
    found = training(run, tmp_path)
    assert found.site is not None
    assert found.site.line == 8
    assert found.call_count == 1
    assert found.elsewhere["other calls"] == pytest.approx(0.5, rel=0.5)


def test_many_short_calls_are_one_group_with_their_fixed_cost(tmp_path: Path) -> None:
    run = Run(exit={"reason": "finished"})
    for each in range(30):
        run.fit(steps=5, compute_ms=2, fixed_ms=40, warmup=int(each == 0), finished=True, line=12)
        run.clock += 5_000_000
    found = training(run, tmp_path)
    assert found.call_count == 30
    assert found.fixed_per_call is not None
    assert found.fixed_per_call.mid == pytest.approx(0.040, rel=0.05)
    assert found.elsewhere["calls"] == pytest.approx(1.2, rel=0.05)
    assert found.elsewhere["between calls"] == pytest.approx(29 * 0.005, rel=0.01)


def test_calls_without_a_line_are_not_lumped_together(tmp_path: Path) -> None:
    run = Run().fit(steps=20, site=False, finished=True).fit(steps=40, site=False)
    assert training(run, tmp_path).call_count == 1


def test_steps_per_execution_counts_optimizer_steps(tmp_path: Path) -> None:
    found = training(Run().fit(steps=200, per_row=10, compute_ms=3), tmp_path)
    assert found.planned_steps == 200
    assert found.step_s == pytest.approx(0.003, rel=0.05)


def test_warm_up_alone_is_no_training(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence, match="3 steps were seen, fewer than 2 of them after warm-up"):
        training(Run().fit(steps=3, warmup=2), tmp_path)


def test_callback_time_is_projected_by_its_own_rhythm(tmp_path: Path) -> None:
    run = Run().fit(steps=100, epochs=2, epochs_planned=10, callbacks_ms=1, between_ms=200)
    run.callback("Watch", ms=1).callback("Watch", ms=200, hook="on_epoch_end")
    run.callback("Beside", ms=9, threaded=True, hook="on_train_batch_end")
    found = resolve(run.capture(tmp_path)).get(CallbackCosts)
    per = {(each.name, each.rhythm): each for each in found.costs}
    assert per["Watch", "step"].training_s.mid == pytest.approx(1.0)
    assert per["Watch", "epoch"].training_s.mid == pytest.approx(2.0)
    assert found.beside == ("Beside",)
    assert len(found.costs) == 2


def test_a_hook_seen_once_is_only_roughly_known(tmp_path: Path) -> None:
    run = Run().fit(steps=100, finished=True).callback("Plot", hook="on_epoch_end", ms=100)
    each = resolve(run.capture(tmp_path)).get(CallbackCosts).costs[0].each
    assert (each.low, each.high) == pytest.approx((0.05, 0.15))


def test_host_use_is_differenced_within_the_steady_steps(tmp_path: Path) -> None:
    found = resolve(Run().fit(steps=300, cores_busy=1.5).capture(tmp_path)).get(HostUse)
    assert found.cores_busy == pytest.approx(1.5)
    assert found.swapped_in is None
    with pytest.raises(MissingEvidence, match="0 looks at the host"):
        resolve(Run().fit(steps=300).capture(tmp_path)).get(HostUse)


def test_late_compilations_are_told_from_warm_up(tmp_path: Path) -> None:
    run = Run().fit(steps=100)
    run.compiled("late", ms=5)
    run._add("compiles", 1, "trace", "early", 1, 5_000_000, None, None, "{}")
    found = resolve(run.capture(tmp_path)).get(CompileLog)
    assert [each.name for each in found.late] == ["late"]
    assert found.seconds == pytest.approx(0.010)


def test_saving_after_batches_is_not_counted_between_epochs_too(tmp_path: Path) -> None:
    run = Run().fit(steps=100, epochs=4, compute_ms=10, between_ms=200)
    found = training(run.callback("ModelCheckpoint", ms=0.01, saving_ms=2), tmp_path).elsewhere
    assert found["saving"] == pytest.approx(0.8, rel=0.05)
    assert found.get("between epochs", 0.0) < 0.01


def test_compiling_in_the_first_epoch_is_not_counted_in_every_epoch(tmp_path: Path) -> None:
    run = Run().fit(steps=100, epochs=2, epochs_planned=20, compute_ms=10, between_ms=500)
    began = run.tables["epochs"][0][2]
    found = training(run.compiled("train_step", ms=450, after_ms=(began - run.clock) / MS), tmp_path).elsewhere
    assert found["between epochs"] == pytest.approx(20 * 0.05, rel=0.05)


@pytest.mark.parametrize("epochs", [2, 4])
def test_what_a_callback_compiled_at_the_end_of_an_epoch_is_not_counted_in_every_epoch(
    tmp_path: Path, epochs: int
) -> None:
    run = Run().fit(steps=100, epochs=epochs, epochs_planned=20, compute_ms=10, between_ms=500)
    steps_end = run.tables["epochs"][epochs - 2][3]
    found = training(run.compiled("predict_step", ms=450, after_ms=(steps_end + 1 - run.clock) / MS), tmp_path)
    seen = max(1, epochs - 2)  # the first counts where no other was seen to its end; the last was cut
    assert found.elsewhere["between epochs"] == pytest.approx(20 * (0.5 - 0.45 / seen), rel=0.1)

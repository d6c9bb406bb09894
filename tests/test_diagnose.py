from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fitdoctor import diagnosis as stage
from fitdoctor import facts, units
from fitdoctor.diagnosis import diagnose
from fitdoctor.facts.step_model import StepModel
from fitdoctor.model import PARTS, Cost, Finding, Interval, Report, Site
from fitdoctor.rules import Rule, all_rules
from tests.captures.build import Run

SERIAL = {"dataset": [{"op": "Batch"}, {"op": "Range"}], "dataset_options": {"autotune": False}}


def report(run: Run, folder: Path) -> Report:
    return diagnose(run.capture(folder))


def test_every_rule_gives_an_outcome(tmp_path: Path) -> None:
    for run in (Run(), Run().fit(), Run("jax").fit(), Run("torch").fit(kind="loop")):
        found = report(run, tmp_path)
        said = [
            each.rule for group in (found.findings, found.passed, found.unknown, found.not_applicable) for each in group
        ]
        assert sorted(said) == sorted(rule.name for rule in all_rules())


def test_the_breakdown_sums_to_the_step(tmp_path: Path) -> None:
    found = report(Run().fit(input_ms=6, compute_ms=10, host_ms=2, other_ms=1), tmp_path)
    assert set(found.breakdown) == {*PARTS, "validation"}
    assert sum(found.breakdown.values()) == pytest.approx(found.run["step_ms"]["mid"])


def test_input_bound(tmp_path: Path) -> None:
    found = report(Run(account={}).fit(steps=400, input_ms=30, compute_ms=18.4, **SERIAL), tmp_path)
    assert found.headline.startswith("Waiting for input takes 62 % (6")
    assert "of each 4" in found.headline
    assert [each.rule for each in found.findings] == ["missing-prefetch"]
    assert found.ceiling is not None
    # Even overlapped, the batch takes longer to make than the step to compute.
    assert found.ceiling.bound == "input"
    assert found.ceiling.speedup.mid == pytest.approx(48.4 / 30, rel=0.05)
    assert found.next_command == "fitdoctor run train.py"


def test_nothing_worth_fixing(tmp_path: Path) -> None:
    found = report(Run(noise=0.001).fit(steps=400, input_ms=0.1, compute_ms=20, other_ms=0.5), tmp_path)
    assert found.headline == "Nothing worth fixing: computing takes 97 % (97 to 97) of each 20.6 ms step."
    assert found.findings == ()
    assert found.ceiling is not None
    assert found.ceiling.speedup.high == 1.0
    assert found.next_command.startswith("fitdoctor report ")


def test_nothing_found_is_not_called_nothing_to_fix(tmp_path: Path) -> None:
    whole = report(Run("torch").fit(steps=400, input_ms=30, compute_ms=10), tmp_path)
    assert whole.headline.endswith("; none of the rules explains it.")
    half = report(Run("jax").fit(steps=200, input_ms=4, compute_ms=10), tmp_path)
    assert half.headline.endswith("but none of the rules explains waiting for input (29 %).")
    eager = report(Run(mode="whole").fit(run_eagerly=True, snapshots=False), tmp_path)
    assert eager.headline.endswith("nothing was found to fix, but eager-step could not be judged.")
    assert eager.next_command == "fitdoctor run train.py"


def test_a_suspicion_is_not_passed_over(tmp_path: Path) -> None:
    gpu = {"index": 0, "name": "NVIDIA A10G", "driver": "550.54.15"}
    environment = {"cores": 4, "logical_cores": 4, "gpus": [gpu], "bf16": False, "swap_total": 0}
    run = Run(noise=0.001, environment=environment).fit(steps=400, input_ms=0.1, compute_ms=20, other_ms=0.5)
    found = report(run, tmp_path)
    assert found.findings == found.unknown == ()
    assert found.headline.endswith("nothing was found to fix, but hidden-gpu is suspected.")


def test_findings_are_ranked_and_joined_not_summed(tmp_path: Path) -> None:
    run = Run(account={}).fit(steps=400, input_ms=20, compute_ms=20, callbacks_ms=10, **SERIAL)
    run.callback("Watch", ms=7).callback("Small", ms=3)
    found = report(run, tmp_path)
    assert [(each.rule, each.cost.evidence.get("callback")) for each in found.findings] == [
        ("missing-prefetch", None), ("slow-callback", "Watch"), ("slow-callback", "Small"),
    ]  # fmt: skip
    assert found.ceiling is not None
    # 50 ms become 20: input hides behind compute, both callbacks are gone.
    assert found.ceiling.speedup.mid == pytest.approx(2.5, rel=0.05)


def test_the_headline_promises_what_its_finding_promises(tmp_path: Path) -> None:
    run = Run(noise=0.001).fit(steps=400, compute_ms=20, callbacks_ms=5).callback("Watch", ms=5)
    found = report(run, tmp_path)
    (finding,) = found.findings
    saving = units.percent_range(finding.cost.saving)
    assert found.headline.endswith(f"fixing what was found would save {saving} of the training.")


def test_a_rule_that_fails_is_unknown_and_the_others_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def locate(source: object) -> Iterator[Site]:
        raise ZeroDivisionError("in the rule")

    first, *others = all_rules()
    broken = Rule(first.name, first.family, first.title, first.page, locate, first.measure, first.fix)
    monkeypatch.setattr(stage, "all_rules", lambda: (broken, *others))
    found = report(Run().fit().source("x = 1"), tmp_path)
    assert [(each.rule, each.gap.reason) for each in found.unknown] == [
        (first.name, "the rule failed: ZeroDivisionError: in the rule")
    ]
    assert len(found.passed) + len(found.not_applicable) == len(others)


def test_no_training(tmp_path: Path) -> None:
    found = report(Run(exit={"reason": "finished"}), tmp_path)
    assert found.headline == "No training was seen: the script ended without a fit or a training loop."
    assert found.run["step_ms"] is None
    assert found.breakdown == {}
    assert found.ceiling is None
    assert any("fitdoctor.steps(data)" in note for note in found.notes)


def test_too_few_steps(tmp_path: Path) -> None:
    found = report(Run().fit(steps=3, warmup=2), tmp_path)
    assert found.headline.startswith("Too little was seen for a diagnosis: 3 steps were seen")
    assert found.next_command == "fitdoctor run --steps 200 train.py"


def test_the_fixed_cost_of_short_calls_leads(tmp_path: Path) -> None:
    run = Run(exit={"reason": "finished"}, account={})
    for each in range(20):
        run.fit(steps=5, compute_ms=2, fixed_ms=40, warmup=int(each == 0), finished=True)
    found = report(run, tmp_path)
    assert found.headline.startswith("Each of 20 calls of fit costs 40.")
    assert found.run["calls"]["fixed_ms"]["mid"] == pytest.approx(40, rel=0.05)


def test_the_report_speaks_of_its_own_measurement(tmp_path: Path) -> None:
    run = Run(noise=0.5, exit={"reason": "exception"}).fit(steps=20).gap("GIL", "no permission", "allow ptrace")
    notes = " ".join(report(run, tmp_path).notes)
    assert "Only 18 steady steps" in notes
    assert "vary a lot" in notes
    assert "Not seen: GIL: no permission. To see it: allow ptrace." in notes
    assert "ended early (exception)" in notes
    assert "Watching cost 7.00 µs to 13.0 µs per step, about 0.1 % of it (calibrated)." in notes


def test_pauses_are_told(tmp_path: Path) -> None:
    run = Run().fit(steps=100, compute_ms=10)
    run.tables["steps"][50] = (*run.tables["steps"][50][:5], 900_000_000, *run.tables["steps"][50][6:])
    assert any("1 steps took more than 5 times" in note for note in report(run, tmp_path).notes)


def test_a_capture_without_meta_is_still_answered(tmp_path: Path) -> None:
    run = Run().fit()
    run.meta = {}
    found = report(run, tmp_path)
    assert found.run["overhead"] == {"us_per_step": None, "fraction": None}
    assert found.next_command == "fitdoctor env"
    assert "What watching cost this run is not known." in found.notes


def test_fixes_that_leave_steps_out_count_in_what_all_of_them_save(tmp_path: Path) -> None:
    capture = Run("jax").fit(steps=100, compute_ms=10, epochs_planned=20).capture(tmp_path)
    fewer = Finding("wasted-epochs", "convergence", None, Cost(Interval(0.5, 0.6, 0.7), "", None), None)
    ceiling = stage._ceiling(facts.resolve(capture).get(StepModel), [fewer, fewer])
    assert ceiling is not None
    assert ceiling.speedup.mid == pytest.approx(1 / 0.16, rel=0.01)
    assert ceiling.speedup.low >= 1 / 0.25 - 0.1


@pytest.mark.parametrize(("changed_ms", "found"), [(14, True), (18.5, False)])
def test_a_noisy_run_tells_large_savings_and_no_small_ones(tmp_path: Path, changed_ms: float, found: bool) -> None:
    """Steps vary by more than a third; the lab, which compares in turns, does not."""
    run = Run(noise=0.5)
    run.fit(compute_ms=20, epochs_planned=50, dtype="float64")
    run.noise, run._wave = 0.01, 0.0
    run.trial("float32", baseline_ms=20, changed_ms=changed_ms)
    report = diagnose(run.capture(tmp_path))
    assert [each.rule for each in report.findings] == ["float64-data"] * found
    told = [each.because for each in report.passed if each.rule == "float64-data"]
    assert all("cannot tell less than 15 % from nothing" in each for each in told)
    assert len(told) == (not found)


@pytest.mark.parametrize(("changed_ms", "found"), [(14, True), (17.5, False)])
def test_what_was_rehearsed_in_turns_is_told_on_a_noisy_run(tmp_path: Path, changed_ms: float, found: bool) -> None:
    """A large gain in every pair is something; a small one may be the machine's."""
    run = Run("jax", noise=0.3)
    run.fit(compute_ms=20, epochs_planned=50, metrics=["auc"])
    run.noise, run._wave = 0.001, 0.0
    for name, unit in (("metrics off", "ns per step"), ("rehearsed: metrics off", "ns per trained step")):
        run.trial(name, baseline_ms=20, changed_ms=changed_ms, unit=unit, whole=False)
    capture = run.capture(tmp_path)
    assert facts.resolve(capture).get(StepModel).noise > 0.1
    assert ("heavy-metrics" in [each.rule for each in diagnose(capture).findings]) is found

"""The corpus keeps its rules, and the accuracy page counts right."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import pytest

from fitdoctor.facts.step_model import StepModel
from fitdoctor.model import PARTS, Change, Cost, Finding, Interval, Site

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import accuracy  # noqa: E402
import accuracy_page  # noqa: E402
import fixes  # noqa: E402
import measure_gain  # noqa: E402
import pairs  # noqa: E402
from accuracy_page import Diagnosis, Found, Healthy, Row  # noqa: E402
from tests.captures.build import Run  # noqa: E402

CORPUS = ROOT / "corpus"
FOLDERS = sorted(path for path in CORPUS.iterdir() if path.is_dir() and path.name not in ("healthy", "__pycache__"))
SCRIPTS = sorted(CORPUS.glob("*/*.py"))
FAMILIES = {"input", "framework", "device", "model", "distributed", "convergence"}


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}" if path.suffix else path.name


# --- the corpus ---------------------------------------------------------------------------------------


def test_there_are_enough_scripts_over_all_backends() -> None:
    truths = [pairs.read_truth(folder / "truth.toml") for folder in FOLDERS]
    assert len(truths) >= 12
    assert {truth.backend for truth in truths} == {"tensorflow", "jax", "torch"}
    assert {"input", "framework", "device", "model"} <= {truth.family for truth in truths}
    backends = {re.findall(r'"KERAS_BACKEND", "(\w+)"', path.read_text())[0] for path in pairs.healthy()}
    assert len(pairs.healthy()) >= 6
    assert backends == {"tensorflow", "jax", "torch"}


@pytest.mark.parametrize("folder", FOLDERS, ids=named)
def test_a_folder_is_complete(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {"slow.py", "fast.py", "truth.toml"}
    assert (folder / "slow.py").read_text() != (folder / "fast.py").read_text()


@pytest.mark.parametrize("folder", FOLDERS, ids=named)
def test_the_truth_fits_its_script(folder: Path) -> None:
    truth = pairs.read_truth(folder / "truth.toml")
    assert truth.cause == folder.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", truth.cause)
    assert truth.family in FAMILIES
    slow = (folder / "slow.py").read_text()
    lines = slow.splitlines()
    for line in truth.lines:
        assert lines[line - 1].strip(), f"line {line} is empty"
    fast = (folder / "fast.py").read_text()
    # A line that is changed, or stands after one that is new (a decorator).
    kept = {*itertools.pairwise(["", *fast.splitlines()])}
    changed = [pair for pair in itertools.pairwise(["", *lines]) if pair not in kept]
    assert any(lines[line - 1] in pair for line in truth.lines for pair in changed), "the fast version keeps them"
    chosen = [re.findall(r'setdefault\("KERAS_BACKEND", "(\w+)"\)', text) for text in (slow, fast)]
    assert chosen[0] == [truth.backend]
    assert (chosen[0] == chosen[1]) is (truth.cause != "slow-backend")
    assert all(re.fullmatch(r"[A-Z]{2}\d{2}", case) for case in truth.cases)
    # A pair that was not timed yet is named so on the accuracy page.
    if truth.gain is not None:
        assert truth.gain.speedup.low > 1
        assert truth.gain.scripts == pairs.scripts(folder), "the scripts were changed since: run make bench-gain"


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_a_script_keeps_the_rules(script: Path) -> None:
    text = script.read_text()
    compile(text, str(script), "exec")
    assert 40 <= len(text.splitlines()) <= 100
    assert text.count('print(f"trained in {time.perf_counter() - start:.2f} s")') == 1
    for line in text.splitlines():
        if "sleep" in line:
            assert re.search(r"#.*round trip", line), line
    assert not re.search(r"https?://|urlopen|requests\.|get_file|tfds\.", text)
    if script.parent.name != "healthy":
        assert script.parent.name not in text, "the script gives its cause away"


# --- measuring ----------------------------------------------------------------------------------------


def test_slow_and_fast_run_in_turns() -> None:
    ran: list[str] = []

    def run(script: Path) -> float:
        ran.append(script.stem)
        return 6.0 if script.stem == "slow" else 2.0

    slow, fast = pairs.measure(Path("anywhere"), 3, run)
    assert ran == ["slow", "fast", "fast", "slow", "slow", "fast"]
    assert (slow, fast) == ([6.0] * 3, [2.0] * 3)


def test_the_gain_is_the_middle_of_its_pairs() -> None:
    assert pairs.middle([2.0] * 5) == Interval.exact(2.0)
    spread = pairs.middle([2.0, 2.5, 3.0, 3.5, 4.0])
    assert spread.low < spread.mid == 3.0 < spread.high


def test_how_far_two_timings_are_apart() -> None:
    table = measure_gain.gain_table([(2.0, 2.0), (2.0, 2.5)], scripts="ab", machine="A CPU", date="2026-01-02")
    assert pairs.repeat(pairs.read_gain(table)) == pytest.approx(0.2)
    once = measure_gain.gain_table([(2.0, 2.0)], scripts="ab", machine="A CPU", date="2026-01-02")
    assert pairs.repeat(pairs.read_gain(once)) is None


def test_the_time_is_what_the_script_prints() -> None:
    assert pairs.trained_in("Epoch 1/2\ntrained in 12.34 s\nkept 3\n") == 12.34
    with pytest.raises(pairs.BenchmarkError, match="found 0"):
        pairs.trained_in("Epoch 1/2\n")
    with pytest.raises(pairs.BenchmarkError, match="found 2"):
        pairs.trained_in("trained in 1 s\ntrained in 2 s\n")


def test_a_failing_script_is_named(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text("raise SystemExit('no data')")
    with pytest.raises(pairs.BenchmarkError, match=r"slow\.py failed:\nno data"):
        pairs.run_script(script)


def test_a_script_runs_in_a_folder_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "fast.py"
    script.write_text("open('left', 'w').close()\nprint('trained in 0.50 s')\n")
    assert pairs.run_script(script) == 0.5
    assert [path.name for path in tmp_path.iterdir()] == ["fast.py"]


def test_the_gain_is_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "truth.toml"
    path.write_text(
        'cause = "a-b"\nfamily = "input"\nline = 3\nbackend = "jax"\nadapter = "arrays"\nidentical = true\ncases = []\n'
    )
    assert pairs.read_truth(path).gain is None
    for ratios in ([(2.0, 2.5)] * 5, [(2.8, 3.0)] * 5):
        machine = 'A "fast" CPU, 2 cores'
        table = measure_gain.gain_table(ratios, scripts="ab", machine=machine, date="2026-01-02")
        measure_gain.write_gain(path, table)
    assert path.read_text().count("[gain]") == 1
    truth = pairs.read_truth(path)
    machine = "A fast CPU, 2 cores"
    speedup, steady = Interval.exact(2.8), Interval.exact(3.0)
    assert truth.gain == pairs.Gain(speedup, 5, "2026-01-02", machine, "ab", steady, ((2.8, 3.0),) * 5)
    assert pairs.read_gain(table) == truth.gain
    assert truth.line == 3


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    for name in ("slow.py", "fast.py"):
        (tmp_path / name).write_text("pass")
    (tmp_path / "truth.toml").write_text(
        'cause = "a-b"\nfamily = "input"\nline = 3\nbackend = "jax"\nadapter = "arrays"\nidentical = true\ncases = []\n'
    )
    return tmp_path


def watched(monkeypatch: pytest.MonkeyPatch, **seconds: list[float]) -> None:
    """Let the scripts take so long, one run after the other."""
    taken = {name: iter(each) for name, each in seconds.items()}
    monkeypatch.setattr(pairs, "watch_script", lambda script: pairs.Watched(next(taken[script.stem]), 0.0))


def test_a_slow_run_is_compared_with_the_fast_ones_beside_it(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that becomes slower and slower changes no ratio."""
    watched(monkeypatch, slow=[6.0, 12.0, 18.0], fast=[1.0, 3.0, 5.0, 7.0])
    gain = pairs.read_gain(measure_gain.measure(pair, 3))
    assert gain.ratios == ((3.0, 3.0),) * 3


def test_two_runs_that_agree_are_enough(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched(monkeypatch, slow=[6.0, 7.0, 7.1, 6.0], fast=[2.0] * 5)
    assert pairs.read_gain(measure_gain.measure(pair, 5, agree=0.04)).pairs == 3


def test_what_was_timed_earlier_counts_where_the_scripts_and_the_machine_are_the_same(
    pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched(monkeypatch, slow=[8.0], fast=[2.0, 2.0])
    truth = pair / "truth.toml"
    assert measure_gain.earlier(pair) == ()
    known = [(3.0, 3.5), (2.0, 2.5)]
    table = measure_gain.gain_table(known, scripts=pairs.scripts(pair), machine=pairs.machine(), date="2026-01-02")
    measure_gain.write_gain(truth, table)
    measure_gain.write_gain(truth, measure_gain.measure(pair, 1, earlier=measure_gain.earlier(pair)))
    gain = pairs.read_truth(truth).gain
    assert gain is not None
    assert gain.ratios == (*known, (4.0, 4.0))
    assert (gain.speedup.mid, gain.steady and gain.steady.mid, gain.pairs) == (3.0, 3.5, 3)
    (pair / "fast.py").write_text("pass  # changed since")
    assert measure_gain.earlier(pair) == ()


# --- the page -----------------------------------------------------------------------------------------


def found(rule: str, low: float, mid: float, high: float, line: int | None = 7, end: int | None = None) -> Found:
    return Found(rule, line, end, Interval(low, mid, high), steady=mid)


def row(
    cause: str,
    *findings: Found,
    realised: Interval | None = None,
    problem: str = "",
    steady: Interval | None = None,
) -> Row:
    return Row(cause, "jax", (7, 12), Diagnosis(findings, problem), realised, runs=5 if realised else 0, steady=steady)


HALF = Interval(0.45, 0.5, 0.55)


def test_a_saving_is_one_minus_fast_over_slow() -> None:
    assert pairs.saving_of(Interval(1.0, 2.0, 4.0)) == Interval(0.0, 0.5, 0.75)


def test_a_right_prediction() -> None:
    good = row("a-b", found("a-b", 0.4, 0.45, 0.5), found("c-d", 0.1, 0.2, 0.3), realised=HALF)
    assert good.right_first
    assert good.right_line
    assert good.inside
    assert good.error == pytest.approx((0.55 - 0.5) / 0.5)


def test_a_cause_further_down_is_compared_but_not_first() -> None:
    second = row("a-b", found("c-d", 0.5, 0.6, 0.7), found("a-b", 0.1, 0.2, 0.3, line=99), realised=HALF)
    assert not second.right_first
    assert second.inside is False
    assert second.right_line is False
    assert second.error == pytest.approx(0.6)


def test_nothing_found_predicts_nothing() -> None:
    silent = row("a-b", realised=HALF)
    assert not silent.right_first
    assert (silent.inside, silent.error, silent.right_line) == (None, None, None)


@pytest.mark.parametrize(
    ("line", "end", "right"), [(7, None, True), (12, None, True), (5, 9, True), (8, 20, False), (None, None, False)]
)
def test_lines(line: int | None, end: int | None, right: bool) -> None:
    assert row("a-b", found("a-b", 0.1, 0.2, 0.3, line, end)).right_line is right


def results() -> tuple[list[Row], list[Healthy]]:
    rows = [
        row("a-b", found("a-b", 0.4, 0.45, 0.5), realised=HALF, steady=Interval.exact(0.56)),
        row("c-d", found("c-d", 0.1, 0.2, 0.3, line=1), realised=HALF, steady=HALF),
        row("e-f", realised=HALF),
        row("g-h", realised=HALF, problem="exit code 1: no backend"),
        row("i-j", found("a-b", 0.3, 0.4, 0.5), found("i-j", 0.5, 0.5, 0.5), realised=HALF, steady=HALF),
    ]
    healthy = [
        Healthy("quiet", Diagnosis(())),
        Healthy("loud", Diagnosis((found("a-b", 0.02, 0.03, 0.04),))),
        Healthy("broken", Diagnosis((), "exit code 1: no backend")),
    ]
    return rows, healthy


def test_the_summary_counts_what_was_wrong_and_what_was_not_answered() -> None:
    counted = accuracy_page.summary(*results())
    assert counted.right_first == (2, 5)
    assert counted.right_line == (2, 3)
    assert counted.inside == (2, 3)
    assert counted.median_step_error == pytest.approx(0.25)
    assert counted.median_error == pytest.approx(0.1)
    assert counted.median_points == pytest.approx(0.05)
    assert counted.false_alarms == (1, 2)
    assert counted.unanswered == 2


def promise(saving: Interval, change: Change | None = None, site: Site | None = None) -> Finding:
    return Finding("a-b", "input", site, Cost(saving, "because", change=change), None)


RUN = {"projected": {"imports": 6.0, "set-up": 2.0, "compiling": 2.0, "steps": 10.0}}


def test_a_share_of_the_run_becomes_a_share_of_the_training() -> None:
    saving = Found.of(promise(Interval(0.1, 0.3, 0.7)), RUN).saving
    assert (saving.low, saving.mid, saving.high) == pytest.approx((1 / 6, 0.5, 1.0))
    assert Found.of(promise(HALF), {}).saving == HALF


def test_a_step_time_is_predicted_without_what_is_paid_once() -> None:
    """Ten seconds of steps and ten between epochs, of which five go; compiling and pauses are in neither share."""
    second = Interval.exact(1.0)
    parts = {part: second if part == "compute" else Interval.exact(0.0) for part in PARTS}
    elsewhere = {"set-up": 9.0, "compiling": 2.0, "pause": 5.0, "between epochs": 10.0}
    model = StepModel(second, parts, planned_steps=10.0, elsewhere=elsewhere)
    change = Change("between epochs", Interval.exact(0.5), once=Interval.exact(3.0))
    assert Found.of(promise(HALF, change), RUN, model=model).steady == pytest.approx(0.25)
    told = row("a-b", Found("a-b", 7, None, HALF, steady=0.7), realised=HALF, steady=Interval(0.7, 0.75, 0.8))
    assert told.step_error == pytest.approx((0.3 - 0.25) / 0.25)


def test_fewer_steps_are_a_share_of_the_steps() -> None:
    """Of twenty seconds six go, of which ten are steps; a second of the compiling was outside of the training."""
    assert Found.of(promise(Interval(0.1, 0.3, 0.7)), RUN, compiled_outside=1.0).steady == pytest.approx(0.6)
    assert Found.of(promise(HALF), {}).steady is None


def test_a_capture_is_judged_as_a_run_would_be(tmp_path: Path) -> None:
    run = Run("jax").fit(steps=200, compute_ms=10, epochs=3, callbacks_ms=10).callback("Watch", ms=10)
    path = Path(run.capture(tmp_path).path or "")
    diagnosis, told = accuracy.judged(path)
    first = diagnosis.findings[0]
    assert first.rule == "slow-callback"
    # Half of the steps; compiling once and starting up are part of the run, and of neither share.
    assert first.steady == pytest.approx(0.5, abs=0.02)
    assert first.saving.mid < first.steady
    assert told["backend"] == "jax"
    assert accuracy.judged(tmp_path / "none")[0].problem


def test_compiling_outside_of_the_training_is_no_part_of_it(tmp_path: Path) -> None:
    run = Run("jax", mode="whole", exit={"code": 0, "reason": "finished"}).compiled("weights", ms=300)
    run.clock += 400_000_000
    run.fit(steps=50, compute_ms=10, finished=True).compiled("predict", ms=200)
    assert pairs.compiled_outside(run.capture(tmp_path)) == pytest.approx(0.5)
    run.meta["exit"]["reason"] = "capped"
    assert pairs.compiled_outside(run.capture(tmp_path)) == pytest.approx(0.3), "what follows is the lab's"
    inside = Run("jax", exit={"code": 0, "reason": "finished"}).fit(steps=50, compute_ms=10, finished=True)
    inside.clock -= 100_000_000
    assert pairs.compiled_outside(inside.compiled("step", ms=50).capture(tmp_path)) == 0.0


def test_watching_tells_what_is_compiled_once() -> None:
    assert pairs.paid_once(RUN, outside=0.5) == 1.5
    assert pairs.paid_once(RUN, outside=3.0) == 0.0
    assert pairs.paid_once({}, outside=0.0) == 0.0
    assert pairs.paid_once({"projected": {"compiling": 2.0, "pause": 1.0}}, outside=0.5) == 2.5
    assert pairs.Watched(5.0, 1.5).steady == 3.5


def test_the_summary_of_nothing() -> None:
    counted = accuracy_page.summary([], [])
    assert counted.median_error is None
    assert counted.right_first == (0, 0)


def test_the_page_says_where_it_is_wrong() -> None:
    rows, healthy = results()
    text = accuracy_page.page(
        rows, healthy, machine="A CPU, 2 cores", versions={"keras": "3.1"}, date="2026-01-02", again=True
    )
    assert "A CPU, 2 cores; keras 3.1. Captures of earlier runs were judged anew." in text
    assert "| right cause first | 2 of 5 (40 %) |" in text
    assert "| a-b | jax | a-b | yes | 45 % (40 to 50) | 50 % (45 to 55) | 5 | yes | +25 % | +10 % |" in text
    assert "| e-f | jax | **no finding** | – | – | 50 % (45 to 55) | 5 | – | – | – |" in text
    assert "- c-d: too little was promised: 20 % (10 to 30) predicted, 50 % (45 to 55) realised" in text
    assert "- c-d: points at 1, a person would edit 7" in text
    assert "- e-f: the cause is not among the findings; found: no finding" in text
    assert "- g-h: fitdoctor gave no report: exit code 1: no backend" in text
    assert "- i-j: the cause stands further down; found: a-b, i-j" in text
    assert "- loud (healthy): false alarm: a-b" in text
    assert "| quiet | no finding |" in text


def test_a_page_without_faults_has_no_such_section() -> None:
    rows, healthy = results()
    text = accuracy_page.page(rows[:1], healthy[:1], machine="A CPU", versions={}, date="2026-01-02")
    assert "Where it is wrong" not in text


def test_a_finding_is_read_from_the_report() -> None:
    finding = promise(Interval(0.1, 0.2, float("inf")), site=Site("train.py", 3))
    assert Found.of(finding, {}) == Found("a-b", 3, None, Interval(0.1, 0.2, 1.0))
    assert Found.of(promise(HALF), {}).line is None


def test_a_disturbed_run_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever came out of it; after so many attempts the calmest counts."""
    clock = iter([(0.0, 0.0), (100.0, 20.0), (200.0, 20.0), (300.0, 21.0)])
    monkeypatch.setattr(pairs, "processor_time", lambda: next(clock))
    results = iter(["disturbed", "calm"])
    assert pairs.undisturbed(lambda: next(results)) == "calm"
    clock = iter([(0.0, 0.0), (100.0, 20.0), (200.0, 20.0), (300.0, 30.0), (400.0, 30.0), (500.0, 60.0)])
    results = iter(["disturbed", "less so", "most"])
    assert pairs.undisturbed(lambda: next(results), attempts=3) == "less so"


def test_the_page_says_which_gains_are_of_another_day() -> None:
    rows = [Row(name, "jax", (1,), Diagnosis(()), None, timed=day) for name, day in (("a", "2026-01-01"), ("b", ""))]
    text = accuracy_page.page(rows, [], machine="m", versions={}, date="2026-01-02")
    assert "1 of 2 pairs were timed on another day (2026-01-01)." in text
    assert "another day" not in accuracy_page.page(rows, [], machine="m", versions={}, date="2026-01-01")


def test_an_edited_script_may_be_the_hand_made_one() -> None:
    assert fixes.same_program('"""One."""\nx = f(1,\n  2)  # twice\n', '"""Other."""\n\nx = f(1, 2)\n')
    assert fixes.same_program("f(a=1, b=2)\n", "f(b=2, a=1)\n")
    assert not fixes.same_program("x = f(1)\n", "x = f(2)\n")
    assert not fixes.same_program('x = "One."\n', 'x = "Other."\n')


def test_what_fixes_reach_is_counted_from_what_was_timed() -> None:
    timed = fixes.Row("a", "same results", (2.0, 4.0), (1.9, 3.9), 0.96)
    rows = [timed, fixes.Row("b", "same results", share=1.0), fixes.Row("c", "by hand"), fixes.Row("d", "", share=0.0)]
    assert fixes.counted(rows).startswith("2 of the 3 scripts that could be edited reach at least 95 %")
    assert fixes.counted(rows).endswith("1 of 4 are left to a person.")
    assert timed.line == "| a | same results | 3.0 | 2.9 | 96 % (95 % to 98 %) |"
    assert rows[2].line == "| c | by hand | | | |"

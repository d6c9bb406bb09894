"""The page about the folklore: verdicts follow from intervals, and every claim is well formed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fitdoctor.model import Interval

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import folklore  # noqa: E402
from claims_kit import Case  # noqa: E402
from folklore_page import Claim, Measured, outcome, page, verdict  # noqa: E402


def claim(*ratios: tuple[float, float, float], problem: str = "") -> Claim:
    cases = tuple(Measured(f"case {n}", "step", 0.002, 0.001, Interval(*ratio), 9) for n, ratio in enumerate(ratios, 1))
    return Claim("a_claim", "It is so", "Compared.", ("https://said.example/1",), cases, problem)


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        ((1.2, 1.4, 1.6), "faster"),
        ((0.97, 1.0, 1.04), "no difference"),
        ((1.01, 1.02, 1.03), "no difference"),
        ((0.5, 0.6, 0.9), "slower"),
        ((0.9, 1.1, 1.4), "not clear"),
        ((0.97, 1.0, 1.06), "not clear"),
    ],
)
def test_what_an_interval_means(ratio: tuple[float, float, float], said: str) -> None:
    assert outcome(Interval(*ratio)) == said


def test_verdicts() -> None:
    faster, same, slower, open_ = (1.5, 2.0, 3.0), (0.98, 1.0, 1.02), (0.4, 0.5, 0.6), (0.5, 1.0, 2.0)
    assert verdict(claim(faster, faster)) == "true here"
    assert verdict(claim(same)) == "false here: there is no difference"
    assert verdict(claim(same, slower)) == (
        "false here: no difference for case 1; slower for case 2 (0.50×, 0.40 to 0.60)"
    )
    assert verdict(claim(faster, same)) == (
        "it depends: faster for case 1 (2.00×, 1.50 to 3.00); no difference for case 2"
    )
    assert verdict(claim(open_)).startswith("not clear here")
    assert verdict(claim(same, open_)) == "not shown here: no difference for case 1; not clear for case 2"
    assert verdict(claim(faster, open_)).startswith("partly true here: faster for case 1")
    assert verdict(claim(problem="Boom")) == "could not be measured: Boom"


def test_the_page_shows_every_case_and_the_machine() -> None:
    text = page(
        [claim((1.5, 2.0, 3.0))], date="2026-01-02", machine="A CPU", versions="keras 3", seconds=5, waiting=[2.0, 3.5]
    )
    assert "| [It is so](#a-claim) | true here |" in text
    assert "| case 1 | 2.00 ms per step | 1.00 ms per step | 2.00 (1.50 to 3.00) | 9 | faster |" in text
    for part in (
        "2026-01-02",
        "A CPU",
        "keras 3",
        "2.0 to 3.5",
        "benchmarks/claims/a_claim.py",
        "https://said.example/1",
    ):
        assert part in text


def test_both_sides_take_turns() -> None:
    order = []

    def block(name: str) -> float:
        order.append(name)
        return sum(1 for _ in range(20_000 if name == "before" else 200)) and 1.0

    found = folklore.measure(Case("a case", lambda: block("before"), lambda: block("after")), seconds=0)
    measured = order[-12:]
    assert measured == ["before", "after", "after", "before"] * 3
    assert found.pairs == 6
    assert found.ratio.low > 1


def test_every_claim_says_something_and_is_on_the_page() -> None:
    written = (BENCHMARKS.parent / "docs" / "folklore.md").read_text("utf-8")
    assert len(folklore.names()) >= 12
    for name in folklore.names():
        says, compared, said = folklore.described(name)
        assert len(says) > 10, name
        assert compared.endswith((".", ".)")), name
        assert all(link.startswith("https://") for link in said)
        assert f"](#{name.replace('_', '-')}) |" in written, f"run make bench-folklore: {name} is missing"


@pytest.mark.framework
def test_a_claim_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, BENCHMARKS / "folklore.py", "--inside", "learning_rate", out, "--seconds", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    (case,) = json.loads(out.read_text())
    assert case["ratio"]["low"] <= case["ratio"]["mid"] <= case["ratio"]["high"]

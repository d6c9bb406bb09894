"""Runs every `tests/rules/<rule>.md`.

A section (`##`) holds a `python` block, a `toml` block, or both.

- `python`: the script.  `locate` must find exactly the lines marked `# <- rule-name`.
- `toml`: a run (`[run]`, `[fit]`, `[[callback]]`, `[[pyfunc]]`, `[[read]]`, `[[traced]]`, `[[trial]]`, `[[calls]]`,
  `[[gap]]`) and what the rule must say of it: `[expect] outcome`, `saving` (the range that must hold its middle),
  `because`, `site`, `fix` (words of what is proposed).
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.diagnosis import judge
from fitdoctor.facts import resolve
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.model import Finding, NotApplicable, Passed, Suspicion, Unknown
from fitdoctor.rules import Rule, all_rules
from tests.captures.build import Run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
OUTCOMES = {
    "finding": Finding,
    "passed": Passed,
    "unknown": Unknown,
    "not applicable": NotApplicable,
    "suspicion": Suspicion,
}


@dataclass(frozen=True)
class Section:
    rule: Rule
    title: str
    script: str | None
    run: dict[str, Any] | None


def sections() -> list[Any]:
    found = []
    for rule in all_rules():
        page = HERE / f"{rule.name.replace('-', '_')}.md"
        for part in re.split(r"^## ", page.read_text("utf-8"), flags=re.M)[1:]:
            title = part.splitlines()[0].strip()
            blocks = dict(re.findall(r"^```(python|toml)\n(.*?)^```", part, flags=re.M | re.S))
            toml = tomllib.loads(blocks["toml"]) if "toml" in blocks else None
            section = Section(rule, title, blocks.get("python"), toml)
            found.append(pytest.param(section, id=f"{rule.name}: {title}"))
    return found


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    pages = {path.stem.replace("_", "-") for path in HERE.glob("*.md")}
    assert pages == {rule.name for rule in all_rules()}


@pytest.mark.parametrize("section", sections())
def test_section(section: Section, tmp_path: Path) -> None:
    assert section.script or section.run, "a section shows a script, a run, or both"
    if section.script is not None:
        check_sites(section.rule, section.script)
    if section.run is not None:
        check_outcome(section, tmp_path)


def check_sites(rule: Rule, script: str) -> None:
    marked = {n for n, line in enumerate(script.splitlines(), 1) if f"# <- {rule.name}" in line}
    found = {site.line for site in rule.locate(SourceTree((SourceFile("train.py", script),)))}
    assert found == marked


def build(told: dict[str, Any], script: str | None) -> Run:
    run = Run(**told.get("run", {}))
    run.fit(**told.get("fit", {}))
    for name in ("callback", "pyfunc", "read", "traced", "trial", "calls", "gap"):
        for each in told.get(name, ()):
            getattr(run, name)(**each)
    return run.source(script) if script is not None else run


def check_outcome(section: Section, folder: Path) -> None:
    assert section.run is not None
    expected = section.run["expect"]
    capture = build(section.run, section.script).capture(folder)
    outcomes = judge(section.rule, resolve(capture))
    first = outcomes[0]
    assert type(first) is OUTCOMES[expected["outcome"]], first
    assert len([each for each in outcomes if isinstance(each, Suspicion)]) == expected.get("suspicions", 0)
    if isinstance(first, Finding):
        low, high = expected["saving"]
        assert low <= first.cost.saving.mid <= high, first.cost
        assert first.fix is not None
        assert first.fix.safety == expected["safety"]
        assert expected.get("fix", "") in first.fix.title
    if isinstance(first, (Finding, Suspicion)) and "site" in expected:
        assert str(first.site) == expected["site"]
    text = {
        Finding: lambda each: each.cost.because,
        Suspicion: lambda each: each.why,
        Passed: lambda each: each.because,
        NotApplicable: lambda each: each.because,
        Unknown: lambda each: f"{each.gap.reason} → {each.gap.remedy}",
    }[type(first)](first)
    for words in [expected["because"]] if isinstance(expected["because"], str) else expected["because"]:
        assert words in text, text

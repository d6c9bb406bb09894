"""Runs every `tests/checking/mended/<rule>.md`: what `fitdoctor check --fix` makes of a script.

A section (`##`) shows a script `before` and `after`; or, instead of that, `left`: the rules that suspect something in a
script that is left as it is.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.checking.check import look
from fitdoctor.checking.settings import Settings
from fitdoctor.fixes.suspected import Mended, mend
from fitdoctor.model import Checked
from fitdoctor.rules import all_rules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGES = Path(__file__).parent / "mended"


@dataclass(frozen=True)
class Section:
    rule: str
    before: str
    after: str | None
    left: list[str]


def sections() -> list[Any]:
    found = []
    for page in sorted(PAGES.glob("*.md")):
        for part in re.split(r"^## ", page.read_text("utf-8"), flags=re.M)[1:]:
            blocks = dict(re.findall(r"^```(before|after|toml)\n(.*?)^```", part, flags=re.M | re.S))
            left = tomllib.loads(blocks.get("toml", "")).get("left", [])
            section = Section(page.stem.replace("_", "-"), blocks["before"], blocks.get("after"), left)
            found.append(pytest.param(section, id=f"{page.stem}: {part.splitlines()[0]}"))
    return found


def mended(path: Path) -> Mended:
    looked = look(str(path), Settings())
    assert looked.unchecked == ()
    return mend(Checked(1, looked.spots), Settings())


def test_every_rule_that_proves_has_a_page_and_every_page_such_a_rule() -> None:
    pages = {path.stem.replace("_", "-") for path in PAGES.glob("*.md")}
    assert pages == {rule.name for rule in all_rules() if rule.provable is not None}


@pytest.mark.parametrize("section", sections())
def test_section(section: Section, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(section.before)
    found = mended(path)
    if section.after is None:
        assert found.files == ()
        assert sorted(spot.suspicion.rule for spot in look(str(path), Settings()).spots) == sorted(section.left)
        return
    assert [each.after.decode() for each in found.files] == [section.after]
    assert {spot.suspicion.rule for spot in found.spots} == {section.rule}
    path.write_text(section.after)
    assert mended(path) == Mended(), "a second time nothing is left to do"
    assert section.rule not in [spot.suspicion.rule for spot in look(str(path), Settings()).spots]


@pytest.mark.parametrize("section", sections())
@pytest.mark.parametrize("how", ["windows", "mark", "latin", "unended"])
def test_other_bytes_stay_as_they_are(section: Section, how: str, tmp_path: Path) -> None:
    if section.after is None:
        return
    before, after = section.before.encode(), section.after.encode()
    if how == "windows":
        before, after = before.replace(b"\n", b"\r\n"), after.replace(b"\n", b"\r\n")
    elif how == "mark":
        before, after = b"\xef\xbb\xbf" + before, b"\xef\xbb\xbf" + after
    elif how == "latin":
        before, after = (b"# coding: latin-1\n# \xe4\n" + each for each in (before, after))
    else:
        before, after = before.rstrip(b"\n"), after.rstrip(b"\n")
    path = tmp_path / "train.py"
    path.write_bytes(before)
    assert [each.after for each in mended(path).files] == [after]


def test_what_is_proved_leaves_results_alone() -> None:
    """The rule's own page says so, in words."""
    for rule in all_rules():
        if rule.provable is not None:
            assert rule.suspicion
            assert "## Without a run" in rule.page
            assert "fitdoctor check --fix" in rule.page

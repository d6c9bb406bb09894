"""Runs every `tests/fixes/<rule>.md`.

A section (`##`) shows a script `before`, `toml` with what the rule knows (`evidence`), and the script `after` its fix;
or, instead of that, `by_hand`: words of why there is no edit (empty where the rule names none).  `# <-` marks the line
that the run pointed at, and is no part of the script; `part` is the part of a step that it saves.  What is fixed needs
no fix, except where it is `relative`.
"""

from __future__ import annotations

import ast
import difflib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.fixes.document import CannotEdit, opened
from fitdoctor.fixes.render import edited
from fitdoctor.model import Change, Cost, Fix, Interval, Site
from fitdoctor.rules import Rule, all_rules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
PATH = "train.py"
MARK = re.compile(r"  # <-$", re.M)


@dataclass(frozen=True)
class Section:
    rule: Rule
    before: str
    after: str | None
    line: int | None
    told: dict[str, Any]

    def cost(self, line: int | None) -> Cost:
        site = Site(PATH, line) if line is not None else None
        part = self.told.get("part")
        change = Change(part, Interval.exact(0.0)) if part is not None else None
        return Cost(Interval.exact(0.5), "it was measured", site, change, evidence=self.told.get("evidence", {}))


def sections() -> list[Any]:
    rules = {rule.name.replace("-", "_"): rule for rule in all_rules()}
    found = []
    for page in sorted(HERE.glob("*.md")):
        for part in re.split(r"^## ", page.read_text("utf-8"), flags=re.M)[1:]:
            blocks = re.findall(r"^```(before|after|toml)\n(.*?)^```", part, flags=re.M | re.S)
            scripts = [text for kind, text in blocks if kind != "toml"]
            told = tomllib.loads("".join(text for kind, text in blocks if kind == "toml"))
            marked = [number for number, line in enumerate(scripts[0].splitlines(), 1) if MARK.search(line)]
            after = MARK.sub("", scripts[1]) if len(scripts) > 1 else None
            section = Section(rules[page.stem], MARK.sub("", scripts[0]), after, next(iter(marked), None), told)
            found.append(pytest.param(section, id=f"{page.stem}: {part.splitlines()[0]}"))
    return found


def named(section: Section, script: str, line: int | None) -> Fix:
    fix = section.rule.fix(section.cost(line), SourceTree((SourceFile(PATH, script),)))
    assert fix is not None
    return fix


def test_there_are_many() -> None:
    assert sum(section.values[0].after is not None for section in sections()) >= 40


@pytest.mark.parametrize("section", sections())
def test_section(section: Section) -> None:
    fix = named(section, section.before, section.line)
    if section.after is None:
        by_hand(fix, section)
        return
    assert fix.edits, fix
    assert applied(fix, section.before) == section.after
    if not section.told.get("relative"):
        line = moved(section)
        again = named(section, section.after, line)
        assert applied(again, section.after) == section.after


@pytest.mark.parametrize("section", sections())
@pytest.mark.parametrize("how", ["windows", "mark", "latin", "unended"])
def test_other_bytes_stay_as_they_are(section: Section, how: str) -> None:
    """The same in files with other line ends, a byte order mark, another encoding, no newline at the end."""
    if section.after is None:
        return
    extra = 0
    before, after = section.before.encode(), section.after.encode()
    if how == "windows":
        before, after = before.replace(b"\n", b"\r\n"), after.replace(b"\n", b"\r\n")
    elif how == "mark":
        before, after = b"\xef\xbb\xbf" + before, b"\xef\xbb\xbf" + after
    elif how == "latin":
        extra = 2
        before, after = (b"# coding: latin-1\n# \xe4\n" + each for each in (before, after))
    else:
        before, after = before.rstrip(b"\n"), after.rstrip(b"\n")
    line = section.line + extra if section.line else None
    text = before.decode("utf-8", "surrogateescape")
    fix = named(section, text, line)
    assert edited({PATH: opened(before)}, fix.edits)[PATH].data == after


def by_hand(fix: Fix, section: Section) -> None:
    words = section.told["by_hand"]
    assert fix.title
    if not words:
        assert fix.edits == ()
        return
    with pytest.raises(CannotEdit, match=re.escape(words)):
        applied(fix, section.before)


def applied(fix: Fix, script: str) -> str:
    after = edited({PATH: opened(script.encode())}, fix.edits)[PATH].data.decode()
    ast.parse(after)
    return after


def moved(section: Section) -> int | None:
    """Return where the marked line went: lines that came before it push it down."""
    if section.line is None:
        return None
    before, after = section.before.splitlines(), (section.after or "").splitlines()
    changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    added = [end - start for tag, low, _, start, end in changes if tag == "insert" and low < section.line]
    return section.line + sum(added)

"""The causes fitdoctor knows as a person reads them on a terminal: the list, and the page of one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from fitdoctor.report.page import Page
from fitdoctor.rules import Rule

_CODE = "    "
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def render_list(page: Page, rules: Sequence[Rule]) -> None:
    """List them by family, and mark those that the source alone can make suspect."""
    width = max((len(rule.name) for rule in rules), default=0)
    mark = page.glyph("•", "*")
    for family, members in groupby(rules, key=lambda rule: rule.family):
        page.line((family, "bold"))
        for rule in members:
            sign = mark if rule.suspicion else " "
            lead = f"  {sign} {rule.name:{width}}  "
            if page.width < 2 * len(lead):
                page.line(lead)
                page.paragraph(rule.title, indent=6)
            else:
                page.paragraph(rule.title, lead=(lead, ""), hang=len(lead))
        page.blank()
    page.paragraph(f"{mark} `fitdoctor check` can suspect it in the source; the others only a run can tell.")
    page.paragraph("`fitdoctor explain NAME` says what it is, how it is established, and what to do.")


def render_page(page: Page, rule: Rule) -> None:
    """Show what is wrong, how it is established, what to do: wrapped as wide as the terminal is."""
    page.line((rule.name, "bold"), (f"  {rule.family}", "dim"))
    for block in _blocks(rule.page):
        page.blank()
        if block[0].startswith("## "):
            page.line((block[0][3:], "bold"))
        elif block[0].startswith((_CODE, "|")):
            for line in block:
                page.line("  ", (line.removeprefix(_CODE), "cyan"))
        else:
            for text in _paragraphs(block):
                item = _ITEM.match(text)
                page.paragraph(text[item.end() :] if item else text, indent=2, lead=item.group() if item else "")


def _blocks(text: str) -> Iterator[list[str]]:
    """Return the lines between empty ones, a heading by itself."""
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        ends = not line.strip() or line.startswith("## ")
        if block and (ends or block[0].startswith("## ")):
            yield block
            block = []
        if line.strip():
            block.append(line.rstrip())


def _paragraphs(block: Sequence[str]) -> Iterator[str]:
    """Join the lines of a paragraph; an item of a list begins one of its own."""
    words: list[str] = []
    for line in block:
        if _ITEM.match(line) and words:
            yield " ".join(words)
            words = []
        words += line.split()
    yield " ".join(words)

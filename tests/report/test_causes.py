"""The list of causes and their pages, on a terminal."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest
from rich.cells import cell_len
from rich.console import Console

from fitdoctor.report import causes
from fitdoctor.report.page import Page
from fitdoctor.rules import Rule, all_rules


def shown(width: int, *rules: Rule, whole: bool = False) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    page = Page(Console(file=stream, width=width, highlight=False))
    if whole:
        causes.render_page(page, rules[0])
    else:
        causes.render_list(page, rules)
    stream.seek(0)
    return stream.read()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_list_fits_and_holds_every_cause(width: int) -> None:
    text = shown(width, *all_rules())
    assert max(cell_len(line) for line in text.splitlines()) <= width
    flat = " ".join(text.split())
    for rule in all_rules():
        assert f"{'• ' if rule.suspicion else ''}{rule.name} {rule.title}" in flat


def words(page: str) -> list[str]:
    return page.replace("## ", "").split()


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_a_page_says_all_its_docstring_does_and_fits(rule: Rule) -> None:
    text = shown(72, rule, whole=True)
    assert text.split()[:2] == [rule.name, rule.family]
    assert text.split()[2:] == words(rule.page)
    code = {line.strip() for line in rule.page.split("\n") if line.startswith(("    ", "|"))}
    assert all(cell_len(line) <= 72 or line.strip() in code for line in text.splitlines())


@pytest.mark.parametrize(("command", "expected"), [(["rules"], "• eager-step"), (["explain", "eager-step"], "What is")])
def test_on_a_terminal(command: list[str], expected: str) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen([sys.executable, "-m", "fitdoctor", *command], stdout=theirs, stdin=theirs)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # nobody writes to it any more
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    assert child.wait(60) == 0
    assert expected in text.decode()
    assert "## " not in text.decode()

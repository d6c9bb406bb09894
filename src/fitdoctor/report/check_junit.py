"""Suspicions as JUnit XML: a test case per suspicion, and one that passes where there is none."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from fitdoctor.model import Checked, Spot, Unchecked

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML may hold, however they are written."""


def dumps(checked: Checked) -> str:
    """Return it as XML."""
    cases = [*map(_spot, checked.spots), *map(_problem, checked.unchecked)]
    if not cases:
        cases = ['    <testcase classname="fitdoctor" name="check"/>']
    counts = f'tests="{len(cases)}" failures="{len(checked.spots)}" errors="{len(checked.unchecked)}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="utf-8"?>',
            f"<testsuites {counts}>",
            f'  <testsuite name="fitdoctor check" {counts}>',
            *cases,
            "  </testsuite>",
            "</testsuites>",
            "",
        ]
    )


def _spot(spot: Spot) -> str:
    suspicion = spot.suspicion
    site = suspicion.site
    code = "\n".join(spot.lines[site.line - 1 : max(site.end_line or site.line, site.line)])
    said = f"suspicion: {suspicion.why}"
    body = f"{spot.where}\n{code}\nto know whether it does: {spot.tell}"
    case = f"classname={_quoted(site.path)} name={_quoted(f'{suspicion.rule} {spot.where}')}"
    return (
        f"    <testcase {case} file={_quoted(site.path)} line={_quoted(str(site.line))}>\n"
        f"      <failure type={_quoted(suspicion.rule)} message={_quoted(said)}>{escape(_clean(body))}</failure>\n"
        "    </testcase>"
    )


def _problem(problem: Unchecked) -> str:
    said = f"could not be checked: {problem.reason}"
    return (
        f"    <testcase classname={_quoted(problem.path)} name={_quoted(f'check {problem.path}')}>\n"
        f'      <error type="unchecked" message={_quoted(said)}>{escape(_clean(str(problem)))}</error>\n'
        "    </testcase>"
    )


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _quoted(text: str) -> str:
    return quoteattr(_clean(text))

"""What `fitdoctor fix` would write, as a person reads it: each fix with its diff, what it saves and how safe it is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from rich.console import Console

from fitdoctor import units
from fitdoctor.fixes.plan import Item
from fitdoctor.model import Site
from fitdoctor.report.page import Page

_SAFETY = {"same": ("same results", "green"), "may change": ("may change results", "yellow")}
_NAME_MOST = 48
_STATES = {"by hand": "by hand", "not asked for": "left out", "refused": "not written"}


def render(items: Sequence[Item], console: Console) -> None:
    """Print every fix."""
    for number, item in enumerate(items, 1):
        render_one(item, console, number)
        console.print()


def render_one(item: Item, console: Console, number: int) -> None:
    """Print one fix."""
    page = Page(console)
    finding, fix = item.finding, item.fix
    saving = f"saves {units.percent_range(finding.cost.saving)} of the training"
    words, style = _SAFETY.get(fix.safety, (fix.safety, "yellow"))
    page.paragraph((f"{number}  ", "bold"), (finding.rule, "bold red"), "  ", (saving, "bold green"), hang=3)
    where = f"{_where(page, finding.site)}: " if finding.site is not None else ""
    page.paragraph((where, "cyan"), fix.title, "  ", (f"({words})", style), indent=3)
    for line in (fix.diff or "").rstrip("\n").split("\n") if fix.diff else ():
        page.line("   ", (line.rstrip("\r"), diff_style(line)))
    if item.state != "ready":
        page.paragraph(item.why, indent=3, lead=(f"{_STATES[item.state]}  ", "bold yellow"))
    if item.otherwise:
        page.paragraph(item.otherwise, indent=3, lead=("or  ", "bold"))


def diff_style(line: str) -> str:
    """Return the colour of a line of a diff."""
    if line.startswith(("---", "+++", "@@")):
        return "dim"
    return {"+": "green", "-": "red"}.get(line[:1], "")


def _where(page: Page, site: Site) -> str:
    path = site.path
    with contextlib.suppress(OSError):  # the working folder may be gone
        path = path.removeprefix(os.path.join(os.getcwd(), ""))
    return f"{page.tail(path, _NAME_MOST)}:{site.line}"

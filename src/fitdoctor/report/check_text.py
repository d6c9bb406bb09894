"""Suspicions as a person reads them: each with its line, what it may cost, and last the command that would tell."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from fitdoctor.model import Checked, Spot
from fitdoctor.report.characters import harmless

if TYPE_CHECKING:
    from fitdoctor.report.page import Page

_COMMANDS = 3


def dumps(checked: Checked) -> str:
    """Return the text without colours."""
    text = io.StringIO()
    render(checked, text)
    return text.getvalue()


def render(checked: Checked, stream: TextIO) -> None:
    """Print them; what has nothing to show is said without loading what draws."""
    for spot in checked.fixed:
        stream.write(f"mended {harmless(spot.where)}: {spot.suspicion.rule}: {spot.fix.title if spot.fix else ''}\n")
    if checked.spots:
        from rich.console import Console

        from fitdoctor.report.page import Page

        page = Page(Console(file=stream, highlight=False))
        for spot in checked.spots:
            _spot(page, spot)
        _next(page, checked.spots)
    stream.write(f"{summary(checked)}\n")


def summary(checked: Checked) -> str:
    """Count what was found, in one line."""
    count, files = len(checked.spots), len({spot.suspicion.site.path for spot in checked.spots})
    found = f"{_count(count, 'suspicion')} in {_count(files, 'file')}" if count else "Nothing suspicious"
    rest = [_count(checked.suppressed, "more silenced", "more silenced")] if checked.suppressed else []
    rest += [f"{len(checked.unchecked)} could not be checked"] if checked.unchecked else []
    rest += [_count(len(checked.fixed), "mended", "mended")] if checked.fixed else []
    fixable = sum(spot.is_fixable for spot in checked.spots)
    rest += [f"--fix mends {fixable if fixable < count else 'it' if count == 1 else 'them'}"] if fixable else []
    return "; ".join([f"{found}, {_count(checked.files, 'file')} checked", *rest]) + "."


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _spot(page: Page, spot: Spot) -> None:
    from fitdoctor.report.terminal import code_frame, inside

    suspicion = spot.suspicion
    page.paragraph((suspicion.rule, "bold yellow"), (f"  {suspicion.family}  suspicion", "dim"))
    page.paragraph(suspicion.why, indent=3)
    page.blank()
    # Never cut and never wrapped by us: terminals and editors make a link of it.
    page.line("   ", (spot.where, "cyan"), (inside(page, suspicion.site), "dim"))
    code_frame(page, suspicion.site, spot.lines, 3)
    if spot.fix is not None and spot.is_fixable:
        page.paragraph(("--fix  ", "bold green"), spot.fix.title, indent=3)
    page.blank()


def _next(page: Page, spots: Sequence[Spot]) -> None:
    page.paragraph("Suspicions, not findings: nothing was run. Whether they cost anything, a run tells:")
    commands = list(dict.fromkeys(spot.tell for spot in spots))
    for command in commands[:_COMMANDS]:
        page.line("  ", (command, "bold cyan"))
    if len(commands) > _COMMANDS:
        page.line("  ", f"and so on, for {len(commands) - _COMMANDS} more")
    page.blank()

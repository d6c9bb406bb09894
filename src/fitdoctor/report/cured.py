"""What `fitdoctor cure` and `fitdoctor fix --prove` tried, measured and kept, as a person reads it and as data."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table

from fitdoctor import units
from fitdoctor.fixes.plan import Plan
from fitdoctor.model import Interval
from fitdoctor.proof.kept import Outcome, Tried
from fitdoctor.report import fixes, proof
from fitdoctor.report.page import Page

_BEYOND = 100
"""Larger speed-ups are not told apart."""
_STYLES = {"PROVED": "bold green", "REFUTED": "bold red"}


def render(plan: Plan, outcome: Outcome | None, console: Console) -> None:
    """Print what was proved as a table, the kept edits as diffs, and what is left to do by hand."""
    page = Page(console)
    if outcome is not None:
        verdict(outcome, console)
    elif not plan.items:
        page.paragraph("Nothing was found that is worth fixing.")
    if outcome is not None and outcome.kept is not None:
        console.print()
        fixes.render(plan.ready, console)
    left = [item for item in plan.items if item.state in ("by hand", "refused") or item.why.startswith("it may change")]
    if left:
        page.paragraph(("Left to you", "bold"))
        for item in left:
            page.paragraph(f"{item.rule}: {item.fix.title}", f" ({item.why})" if item.why else "", indent=2, hang=2)


def verdict(outcome: Outcome, console: Console) -> None:
    """Print what was tried as a table, predicted beside measured, and what is kept of it."""
    page = Page(console)
    console.print(_table(outcome, page))
    console.print()
    if outcome.untried:
        count = "1 fix was" if len(outcome.untried) == 1 else f"{len(outcome.untried)} fixes were"
        page.paragraph(f"{count} not tried alone, since the time was up: a larger --budget does.")
    if outcome.kept is None:
        page.paragraph(("Nothing was kept: ", "bold"), f"{outcome.tried[0].proof.because}.")
        return
    told = outcome.kept.proof
    page.paragraph(
        ("Kept  ", "bold green"),
        ", ".join(told.rules),
        f": the training takes {units.duration_range(told.after_s)} instead of "
        f"{units.duration_range(told.before_s)}, {units.times_exact(told.speedup)} as fast; "
        f"learning: {told.learning}.",
    )


def _table(outcome: Outcome, page: Page) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("fix")
    for name in ("predicted", "measured"):
        table.add_column(name, justify="right")
    for name in ("verdict", "learning"):
        table.add_column(name)
    for tried in outcome.tried:
        table.add_row(*(page.text(each) for each in _row(tried)))
    return table


def _row(tried: Tried) -> list[str | tuple[str, str]]:
    told = tried.proof
    return [
        " + ".join(told.rules),
        _times(told.predicted) if told.predicted is not None else "",
        _times(told.speedup) if told.schedule else "",
        (told.verdict, _STYLES.get(told.verdict, "yellow")),
        told.learning,
    ]


def _times(speedup: Interval) -> str:
    """Return a speed-up in few columns."""
    high = f"{speedup.high:.2f}" if speedup.high < _BEYOND else f"over {_BEYOND}"
    return f"{speedup.mid:.2f}x ({speedup.low:.2f} to {high})"


def dumps(plan: Plan, outcome: Outcome | None) -> str:
    """Return it as JSON."""
    kept = outcome.kept if outcome is not None else None
    tried = outcome.tried if outcome is not None else ()
    data = {
        "schema": "fitdoctor.cure/1",
        "script": plan.script,
        "kept": list(kept.proof.rules) if kept is not None else [],
        "untried": [item.rule for item in plan.items if outcome is not None and item.place in outcome.untried],
        "proofs": [json.loads(proof.dumps(each.proof)) for each in tried],
        "diffs": [{"rule": item.rule, "diff": item.fix.diff} for item in plan.ready] if kept is not None else [],
        "left": [{"rule": item.rule, "why": item.why} for item in plan.items if item.state != "ready"],
    }
    return json.dumps(data, indent=2) + "\n"

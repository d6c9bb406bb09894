"""What `fitdoctor tune` tried and proved, as a person reads it and as data."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from fitdoctor import units
from fitdoctor.model import Interval
from fitdoctor.report import proof
from fitdoctor.report.page import Page
from fitdoctor.tune import advice
from fitdoctor.tune.trial import Trial
from fitdoctor.tune.tune import Tuned

_STYLES = {"PROVED": "bold green", "REFUTED": "bold red"}


def render(found: Tuned, console: Console) -> None:
    """Print the trials as a table, what was not searched, the proof, and how to write the settings down."""
    page = Page(console)
    console.print(_table(found, page))
    console.print()
    if found.space.left_out:
        page.paragraph(("Not searched", "bold"))
        for each in found.space.left_out:
            page.paragraph(f"{each.name}: {each.why}", indent=2, hang=2)
        console.print()
    best = found.winner
    if best is None:
        page.paragraph(("No other settings: ", "bold"), _why_none(found))
        return
    if found.proof is None:
        why = f": {found.unproved.rstrip('.')}" if found.unproved else ""
        page.paragraph(("The fastest so far  ", "bold"), f"{best.settings}; it is not proved{why}.")
        return
    told = found.proof
    page.paragraph((told.verdict, _STYLES.get(told.verdict, "bold yellow")), f"  {best.settings}")
    page.paragraph(f"{told.because}.", indent=2)
    page.paragraph(
        f"the training takes {units.duration_range(told.after_s)} instead of {units.duration_range(told.before_s)}, "
        f"by {len(told.schedule) // 2} pairs of fresh processes in turns, for the same number of samples.",
        indent=2,
    )
    if found.proved:
        console.print()
        page.paragraph(("To keep it", "bold"), f", write ({found.own.seen.where if found.own.seen else ''}):")
        for line in _advice(found, best):
            page.paragraph(line, indent=2, hang=2)


def _advice(found: Tuned, best: Trial) -> list[str]:
    return advice.lines(best.settings, found.own.seen) if found.own.seen is not None else []


def _why_none(found: Tuned) -> str:
    if not found.space.knobs:
        return "nothing can be turned on this script."
    if found.interrupted:
        return "none of those tried so far is faster than the script's own."
    measured = sum(each.state in ("measured", "stopped early") for each in found.trials)
    return f"none of the {measured} that ran is faster than the script's own."


def _unit(found: Tuned) -> str:
    own = found.own.seen
    return "samples/s" if own is not None and own.batch else "steps/s"


def _table(found: Tuned, page: Page) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("trial", justify="right")
    table.add_column("settings", overflow="fold")
    table.add_column(_unit(found), justify="right")
    table.add_column("whole training", justify="right")
    table.add_column("state", overflow="fold")
    for each in found.trials:
        table.add_row(*(page.text(part) for part in _row(each)))
    return table


def _row(trial: Trial) -> list[str]:
    rate = ""
    if trial.seen is not None:
        found = trial.seen.rate
        high = units.count(found.high) if math.isfinite(found.high) else "any"
        rate = f"{units.count(found.mid)} ({units.count(found.low)} to {high})"
    return [
        str(trial.number),
        str(trial.settings),
        rate,
        units.duration(trial.training_s) if trial.training_s is not None else "",
        f"{trial.state}: {trial.why}" if trial.why else trial.state,
    ]


def data(found: Tuned) -> dict[str, Any]:
    """Return it as plain data."""
    best = found.winner
    return {
        "schema": "fitdoctor.tune/1",
        "command": list(found.command),
        "search": str(found.kept),
        "interrupted": found.interrupted,
        "unit": _unit(found),
        "searched": [
            {"name": each.name, "values": list(each.values), "safety": each.safety} for each in found.space.knobs
        ],
        "not_searched": [asdict(each) for each in found.space.left_out],
        "trials": [_trial(each) for each in found.trials],
        "winner": best.number if best is not None else None,
        "unproved": found.unproved,
        "proof": json.loads(proof.dumps(found.proof)) if found.proof is not None else None,
        "write": _advice(found, best) if best is not None and found.proved else [],
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "settings": trial.settings.data(),
        "state": trial.state,
        "rate": _rate(trial.seen.rate) if trial.seen is not None else None,
        "training_s": trial.training_s,
        "why": trial.why,
        "node": trial.node,
    }


def _rate(rate: Interval) -> dict[str, float | None]:
    """Return a rate as JSON can hold it: without an end, its high is null."""
    return {name: value if math.isfinite(value) else None for name, value in asdict(rate).items()}


def dumps(found: Tuned) -> str:
    """Return it as JSON."""
    return json.dumps(data(found), indent=2) + "\n"

"""The report in a few hundred bytes: what a list of many runs shows of each, kept in the capture's own meta rows."""

from __future__ import annotations

from typing import Any

from fitdoctor._version import __version__
from fitdoctor.model import Report
from fitdoctor.report.json import to_dict

SUMMARY_SCHEMA = "fitdoctor.summary/1"
KEY = "summary"
"""Its key in a capture's meta."""

_RUN = ("backend", "kind", "adapter", "steps", "step_ms", "batch_size", "planned_steps", "projected_s")


def of(report: Report) -> dict[str, Any]:
    """Return what a list shows of a run, as plain data."""
    whole = to_dict(report)
    first = whole["findings"][0] if whole["findings"] else None
    return {
        "schema": SUMMARY_SCHEMA,
        "fitdoctor": __version__,
        "headline": whole["headline"],
        **{name: whole["run"].get(name) for name in _RUN},
        "breakdown": whole["breakdown"],
        "findings": len(whole["findings"]),
        "top": {name: first[name] for name in ("rule", "family", "site", "saving", "because")} if first else None,
    }


def valid(found: Any) -> bool:
    """Tell whether this is a summary as this very fitdoctor would write it; another one may judge otherwise."""
    return isinstance(found, dict) and found.get("schema") == SUMMARY_SCHEMA and found.get("fitdoctor") == __version__

"""Suspicions as data: schema `fitdoctor.check/1`."""

from __future__ import annotations

import json
from typing import Any

from fitdoctor.model import Checked, Spot


def as_data(checked: Checked) -> dict[str, Any]:
    """Return what was checked as plain data."""
    return {
        "schema": checked.schema,
        "files": checked.files,
        "suspicions": [_spot(spot) for spot in checked.spots],
        "fixed": [_spot(spot) for spot in checked.fixed],
        "suppressed": checked.suppressed,
        "unchecked": [
            {"path": each.path, "cell": each.cell, "line": each.line, "reason": each.reason}
            for each in checked.unchecked
        ],
        "warnings": list(checked.warnings),
    }


def dumps(checked: Checked) -> str:
    """Return it as JSON."""
    return json.dumps(as_data(checked), indent=2, ensure_ascii=False) + "\n"


def _spot(spot: Spot) -> dict[str, Any]:
    suspicion = spot.suspicion
    site = suspicion.site
    return {
        "rule": suspicion.rule,
        "family": suspicion.family,
        "site": {
            "path": site.path,
            "cell": spot.cell,
            "line": site.line,
            "end_line": site.end_line,
            "symbol": site.symbol,
        },
        "why": suspicion.why,
        "tell": spot.tell,
        "fingerprint": spot.fingerprint,
        "fix": spot.fix.title if spot.fix is not None and spot.is_fixable else None,
    }

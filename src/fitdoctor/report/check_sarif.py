"""Suspicions as SARIF 2.1.0, for code scanning.

They are notes, the lowest level that code scanning shows: nothing was measured.
"""

from __future__ import annotations

import json
import os
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from fitdoctor._version import __version__
from fitdoctor.model import Checked, Spot, Unchecked

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "fitdoctorSuspicion/v1"
_ROOT = "SRCROOT"


def as_data(checked: Checked) -> dict[str, Any]:
    """Return the log, with one run."""
    rules = sorted(checked.titles)
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "fitdoctor",
                        "semanticVersion": __version__,
                        "rules": [_rule(name, checked.titles[name]) for name in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {_ROOT: {"uri": PurePath(os.getcwd()).as_uri() + "/"}},
                "invocations": [
                    {
                        "executionSuccessful": not checked.unchecked,
                        "toolExecutionNotifications": [
                            *(_problem(each) for each in checked.unchecked),
                            *({"level": "warning", "message": {"text": each}} for each in checked.warnings),
                        ],
                    }
                ],
                "results": [_result(spot, rules) for spot in checked.spots],
            }
        ],
    }


def dumps(checked: Checked) -> str:
    """Return it as JSON."""
    return json.dumps(as_data(checked), indent=2) + "\n"


def _rule(name: str, title: str) -> dict[str, Any]:
    return {
        "id": name,
        "shortDescription": {"text": f"{title}."},
        "help": {"text": f"A suspicion from the source alone; `fitdoctor explain {name}` says more."},
        "defaultConfiguration": {"level": "note"},
    }


def _result(spot: Spot, rules: list[str]) -> dict[str, Any]:
    suspicion = spot.suspicion
    site = suspicion.site
    cell = f" (cell {spot.cell}, line {site.line})" if spot.cell is not None else ""
    physical: dict[str, Any] = {"artifactLocation": _artifact(site.path)}
    if spot.cell is None:
        # A notebook is one line of JSON to SARIF: lines of its cells would point anywhere.
        physical["region"] = {
            "startLine": site.line,
            "endLine": max(site.end_line or site.line, site.line),
            "snippet": {"text": _snippet(spot)},
        }
    location: dict[str, Any] = {"physicalLocation": physical}
    if site.symbol:
        location["logicalLocations"] = [{"fullyQualifiedName": site.symbol}]
    return {
        "ruleId": suspicion.rule,
        "ruleIndex": rules.index(suspicion.rule),
        "level": "note",
        "message": {"text": f"Suspicion{cell}: {suspicion.why}. To know whether it does: {spot.tell}"},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: spot.fingerprint},
    }


def _snippet(spot: Spot) -> str:
    site = spot.suspicion.site
    return "\n".join(spot.lines[site.line - 1 : max(site.end_line or site.line, site.line)])


def _problem(problem: Unchecked) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(problem.path)}
    if problem.line and problem.cell is None:
        physical["region"] = {"startLine": problem.line}
    return {
        "level": "error",
        "message": {"text": f"could not be checked: {problem}"},
        "locations": [{"physicalLocation": physical}],
    }


def _artifact(path: str) -> dict[str, Any]:
    """Name a file below the working folder relative to it, any other by its full address."""
    relative = os.path.relpath(path)
    if relative.startswith(os.pardir):
        return {"uri": PurePath(os.path.abspath(path)).as_uri()}
    # As bytes: a name need not be UTF-8.
    return {"uri": quote(os.fsencode(relative.replace(os.sep, "/"))), "uriBaseId": _ROOT}

"""The report as data: schema `fitdoctor.report/1`, published in `report.schema.json` beside this file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from importlib import resources
from numbers import Integral, Real
from typing import Any

from fitdoctor.errors import UsageError
from fitdoctor.facts.input_data import INPUT_SCHEMA, as_data
from fitdoctor.facts.input_view import InputView
from fitdoctor.model import (
    PARTS,
    REPORT_SCHEMA,
    Ceiling,
    Cost,
    Finding,
    Fix,
    Gap,
    Interval,
    NotApplicable,
    Passed,
    Report,
    Site,
    Suspicion,
    Unknown,
)

_RUN: dict[str, Any] = {
    "command": [],
    "backend": None,
    "versions": {},
    "steps": None,
    "step_ms": None,
    "overhead": None,
    "ranks": 1,
}
_BREAKDOWN = (*PARTS[:-1], "validation", PARTS[-1])


def dumps(report: Report) -> str:
    """Return the report as JSON text, readable and ending in a newline; never holds NaN or Infinity."""
    return json.dumps(to_dict(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def dumps_input(view: InputView) -> str:
    """Return the input alone as JSON text: what stands under `input` in a report, with schema and script."""
    whole = _plain({"schema": INPUT_SCHEMA, "script": view.script, **as_data(view)})
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) that every report satisfies."""
    text = resources.files("fitdoctor.report").joinpath("report.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def to_dict(report: Report) -> dict[str, Any]:
    """Return the report as plain dicts, lists, strings, finite numbers, booleans and None."""
    breakdown = {part: report.breakdown.get(part, 0.0) for part in _BREAKDOWN} if report.breakdown else {}
    ceiling = report.ceiling
    whole = {
        "schema": report.schema,
        "headline": report.headline,
        "run": {**_RUN, **report.run},
        "breakdown": breakdown,
        "phases": report.phases,
        "ceiling": {**_interval(ceiling.speedup), "bound": ceiling.bound} if ceiling else None,
        "findings": [_finding(finding) for finding in report.findings],
        "suspicions": [
            {"rule": each.rule, "family": each.family, "site": _site(each.site), "why": each.why}
            for each in report.suspicions
        ],
        "passed": [{"rule": each.rule, "because": each.because} for each in report.passed],
        "unknown": [{"rule": each.rule, **asdict(each.gap)} for each in report.unknown],
        "not_applicable": [{"rule": each.rule, "because": each.because} for each in report.not_applicable],
        "proofs": report.proofs,
        "notes": report.notes,
        "next_command": report.next_command,
        **({} if report.input is None else {"input": report.input}),
    }
    plain: dict[str, Any] = _plain(whole)
    return plain


def _finding(finding: Finding) -> dict[str, Any]:
    cost, fix = finding.cost, finding.fix
    return {
        "rule": finding.rule,
        "family": finding.family,
        "site": _site(finding.site),
        "saving": _interval(cost.saving),
        "because": cost.because,
        "evidence": cost.evidence,
        "fix": {"title": fix.title, "safety": fix.safety, "diff": fix.diff} if fix else None,
    }


def _site(site: Site | None) -> dict[str, Any] | None:
    return asdict(site) if site else None


def _interval(interval: Interval) -> dict[str, float]:
    return {"low": interval.low, "mid": interval.mid, "high": interval.high}


def _plain(value: Any) -> Any:
    """Reduce anything to what JSON can hold: a number that is not finite is not known, hence None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(each) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, set | frozenset):
        return [_plain(each) for each in sorted(value, key=str)]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    for method in ("item", "tolist"):  # numpy booleans and arrays, without importing numpy
        convert = getattr(value, method, None)
        if callable(convert) and (method == "tolist" or getattr(value, "ndim", None) == 0):
            return _plain(convert())
    return _text(str(value))


def _text(text: str) -> str:
    """File names may hold bytes that are not UTF-8; UTF-8 text may not."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# --- and back -------------------------------------------------------------------------------------------


def from_dict(data: Mapping[str, Any]) -> Report:
    """Rebuild a report from its JSON form; what only the diagnosis needs (`Cost.change`) is not in there."""
    found = data.get("schema") if isinstance(data, Mapping) else None
    if found != REPORT_SCHEMA:
        raise UsageError(
            f"expected a report with schema {REPORT_SCHEMA!r}, found {found!r}",
            do="give a file written by `fitdoctor run --json FILE` of this version",
        )
    try:
        return _report(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"the report does not follow its schema {REPORT_SCHEMA}: {type(error).__name__} {error}",
            do="write it again with `fitdoctor report CAPTURE --format json`",
        ) from error


def _report(data: Mapping[str, Any]) -> Report:
    run = dict(data["run"])
    if run["step_ms"] is not None:
        run["step_ms"] = _to_interval(run["step_ms"])
    ceiling = data["ceiling"]
    return Report(
        headline=data["headline"],
        run=run,
        breakdown=dict(data["breakdown"]),
        phases=dict(data["phases"]),
        ceiling=Ceiling(_to_interval(ceiling), ceiling["bound"]) if ceiling else None,
        findings=tuple(_to_finding(each) for each in data["findings"]),
        suspicions=tuple(
            Suspicion(each["rule"], each["family"], Site(**each["site"]), each["why"]) for each in data["suspicions"]
        ),
        passed=tuple(Passed(each["rule"], each["because"]) for each in data["passed"]),
        unknown=tuple(
            Unknown(each["rule"], Gap(each["what"], each["reason"], each["remedy"])) for each in data["unknown"]
        ),
        not_applicable=tuple(NotApplicable(each["rule"], each["because"]) for each in data["not_applicable"]),
        proofs=tuple(data["proofs"]),
        notes=tuple(data["notes"]),
        next_command=data["next_command"],
        schema=data["schema"],
        input=data.get("input"),
    )


def _to_interval(data: Mapping[str, Any]) -> Interval:
    return Interval(data["low"], data["mid"], math.inf if data["high"] is None else data["high"])


def _to_finding(data: Mapping[str, Any]) -> Finding:
    site = Site(**data["site"]) if data["site"] else None
    cost = Cost(
        saving=_to_interval(data["saving"]),
        because=data["because"],
        site=site,
        evidence=dict(data["evidence"]),
    )
    return Finding(data["rule"], data["family"], site, cost, Fix(**data["fix"]) if data["fix"] else None)

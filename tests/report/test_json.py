from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitdoctor.errors import UsageError
from fitdoctor.model import PARTS, PHASES, REPORT_SCHEMA, Ceiling, Cost, Finding, Interval, Report, ranked
from fitdoctor.report import json as report_json
from tests.report import samples
from tests.report.contract import assert_contract


@pytest.mark.parametrize("name", samples.ALL)
def test_every_report_keeps_the_published_contract(name: str) -> None:
    assert_contract(report_json.dumps(samples.ALL[name]))


def test_the_text_is_what_the_architecture_promises() -> None:
    data = json.loads(report_json.dumps(samples.SLOW))
    assert data["schema"] == REPORT_SCHEMA
    assert {"command", "backend", "versions", "steps", "step_ms", "overhead", "ranks"} <= data["run"].keys()
    assert list(data["breakdown"]) == [
        "input", "transfer", "compute", "host", "callbacks", "sync", "validation", "other"
    ]  # fmt: skip
    assert data["ceiling"] == {"low": 3.1, "mid": 4.2, "high": 5.4, "bound": "compute"}
    first = data["findings"][0]
    assert (first["rule"], first["family"]) == ("python-map", "input")
    assert first["site"] == {
        "path": "examples/slow_images.py",
        "line": 15,
        "end_line": None,
        "symbol": "augment",
    }
    assert first["saving"] == {"low": 0.55, "mid": 0.61, "high": 0.66}
    assert first["fix"]["safety"] == "may change"
    assert data["unknown"][0]["remedy"] == "run it where the GPU is"
    assert data["next_command"] == "fitdoctor fix examples/slow_images.py"


@pytest.mark.parametrize("name", ["slow", "healthy"])
def test_round_trip(name: str) -> None:
    report = samples.ALL[name]
    # The JSON form also says that no part of a steady step is validation.
    expected = dataclasses.replace(report, breakdown={**report.breakdown, "validation": 0.0})
    assert report_json.from_dict(json.loads(report_json.dumps(report))) == expected


@pytest.mark.parametrize("name", samples.ALL)
def test_a_second_round_trip_changes_nothing(name: str) -> None:
    text = report_json.dumps(samples.ALL[name])
    assert report_json.dumps(report_json.from_dict(json.loads(text))) == text


def test_numbers_that_are_not_finite_become_null() -> None:
    text = report_json.dumps(samples.HOSTILE)
    data = assert_contract(text)
    assert data["ceiling"]["high"] is None
    assert None in data["findings"][0]["evidence"].values()
    back = report_json.from_dict(data)
    assert back.ceiling is not None
    assert back.ceiling.speedup.high == math.inf


def test_evidence_may_hold_numpy_and_names_that_are_not_utf8() -> None:
    evidence = {
        "count": np.int64(3),
        "share": np.float32(0.5),
        "yes": np.bool_(True),
        "steps": np.array([1, 2]),
        "file": "caf\udce9.png",
        "bad": np.float64("nan"),
        "interval": Interval(1, 2, 3),
    }
    finding = Finding("small-files", "input", None, Cost(Interval(0.1, 0.2, 0.3), "x", evidence=evidence), None)
    data = assert_contract(report_json.dumps(dataclasses.replace(samples.HEALTHY, findings=(finding,))))
    assert data["findings"][0]["evidence"] == {
        "count": 3,
        "share": 0.5,
        "yes": True,
        "steps": [1, 2],
        "file": "caf\\udce9.png",
        "bad": None,
        "interval": {"low": 1, "mid": 2, "high": 3},
    }


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("surprise",), 1),
        (("breakdown", "magic"), 1.0),
        (("phases", "coffee"), 1.0),
        (("findings", 0, "colour"), "red"),
        (("findings", 0, "rule"), "Not A Rule"),
        (("findings", 0, "family"), "astrology"),
        (("findings", 0, "fix", "safety"), "probably"),
        (("findings", 0, "site", "line"), 0),
        (("run", "steps"), "many"),
        (("breakdown", "input"), -1.0),
        (("schema",), "fitdoctor.report/2"),
    ],
)
def test_the_schema_is_strict(where: tuple[str | int, ...], value: Any) -> None:
    data: Any = report_json.to_dict(samples.SLOW)
    at = data
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, report_json.schema(), jsonschema.Draft202012Validator)


def test_the_schema_lists_exactly_the_vocabulary() -> None:
    schema = report_json.schema()
    assert set(schema["properties"]["phases"]["properties"]) == set(PHASES)
    full = schema["properties"]["breakdown"]["oneOf"][0]
    assert set(full["required"]) == {*PARTS, "validation"}
    fields = {field.name for field in dataclasses.fields(Report)}
    assert set(schema["properties"]) == fields


@pytest.mark.parametrize("data", [{}, {"schema": "other/1"}, {"schema": REPORT_SCHEMA}, []])
def test_a_foreign_file_is_refused_with_a_reason(data: Any) -> None:
    with pytest.raises(UsageError, match="schema"):
        report_json.from_dict(data)


numbers = st.floats(0, 1, allow_nan=False)


@given(st.lists(st.tuples(numbers, numbers, numbers), max_size=5), st.text())
def test_any_ranked_findings_keep_the_contract(savings: list[tuple[float, float, float]], text: str) -> None:
    findings = [
        Finding("slow-callback", "framework", None, Cost(Interval.around(saving), text or "x"), None)
        for saving in savings
    ]
    report = dataclasses.replace(
        samples.HEALTHY,
        findings=ranked(findings),
        headline=text or "x",
        ceiling=Ceiling(Interval.exact(1), text),
    )
    data = assert_contract(report_json.dumps(report))
    assert len(data["findings"]) == len(savings)

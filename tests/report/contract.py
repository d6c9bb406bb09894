"""What every JSON report keeps to: the published schema, and what a schema cannot say."""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import jsonschema

from fitdoctor.report import json as report_json


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    schema = report_json.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def assert_contract(text: str) -> dict[str, Any]:
    """Check the text of a JSON report and return it as data."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    data: dict[str, Any] = json.loads(text, parse_constant=refuse)
    errors = [f"{error.json_path}: {error.message}" for error in _validator().iter_errors(data)]
    assert not errors, errors
    step = data["run"]["step_ms"]
    if data["breakdown"]:
        assert math.isclose(sum(data["breakdown"].values()), step["mid"], rel_tol=1e-6, abs_tol=1e-6)
    savings = [finding["saving"]["mid"] for finding in data["findings"]]
    assert savings == sorted(savings, reverse=True), "findings are not ranked"
    for finding in data["findings"]:
        saving = finding["saving"]
        assert saving["low"] <= saving["mid"] <= saving["high"]
    return data

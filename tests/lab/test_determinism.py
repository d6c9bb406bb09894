"""Op determinism is turned off for the experiment alone, and only where it was on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fitdoctor.lab.bench import Seen
from fitdoctor.lab.experiments import op_determinism
from tests.conftest import Doctor

SCRIPT = Path(__file__).parent / "determinism.py"


@pytest.mark.parametrize(
    ("info", "tried"),
    [
        ({"backend": "tensorflow", "deterministic": True}, True),
        ({"backend": "tensorflow", "deterministic": False}, False),
        ({"backend": "tensorflow"}, False),
        ({"backend": "jax", "deterministic": True}, False),
    ],
)
def test_it_is_tried_only_where_it_is_on(info: dict[str, object], tried: bool) -> None:
    assert (op_determinism.worth(Seen(1e6, info, {})) > 0) is tried


@pytest.mark.framework
def test_everything_is_as_it_was(doctor: Doctor) -> None:
    ran = doctor.plain(str(SCRIPT), backend="tensorflow")
    assert ran.code == 0, ran.err
    seen = json.loads(ran.out.strip().splitlines()[-1])
    assert seen["trials"] == ["op determinism off", "loader without op determinism"], seen["gaps"]
    assert seen["worth"] > 0
    assert seen["differs"] == []
    assert seen["function"] is True
    assert seen["on"] is True
    with_it, without = seen["at_once"]
    assert with_it == 1 < without, "without it calls of Python no longer take turns"

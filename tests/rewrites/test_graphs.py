"""Copies of the user's functions compute what the functions compute, without tracing them again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Doctor

SCRIPT = Path(__file__).parent / "copied_functions.py"


@pytest.mark.framework
def test_a_copy_returns_bit_for_bit_what_the_function_returns(doctor: Doctor) -> None:
    ran = doctor.plain(str(SCRIPT), backend="tensorflow")
    assert ran.code == 0, ran.err
    seen = json.loads(ran.out.strip().splitlines()[-1])
    assert [name for name, same in seen["same"].items() if not same] == []
    assert [name for name, found in seen["lines"].items() if not found] == []
    assert seen["calls"] == [], "calls of other functions are inlined"
    assert seen["traced"] == 2, "once for each dataset of the script's own"

"""Pipelines built again give the same data, trace nothing and leave the original alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Doctor


@pytest.mark.framework
def test_every_kind_of_pipeline_built_again_is_the_same(doctor: Doctor) -> None:
    ran = doctor.plain(str(Path(__file__).with_name("clones.py")))
    assert ran.code == 0, ran.err
    seen = json.loads(ran.out.strip().splitlines()[-1])
    assert len(seen["differences"]) >= 35
    assert {name: found for name, found in seen["differences"].items() if found} == {}
    assert seen["unseeded"] == {"differ": True, "same elements": True, "global seed kept": True}
    assert [each.partition(":")[0] for each in seen["refused"]] == ["group_by_window", "unique"]

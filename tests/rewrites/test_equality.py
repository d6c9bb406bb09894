"""No rewrite is accepted that gives other data: hard pipelines, and random ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Doctor

HERE = Path(__file__).parent


def ran(doctor: Doctor, script: str, *args: str) -> dict[str, Any]:
    done = doctor.plain(str(HERE / script), *args)
    assert done.code == 0, done.err[-3000:]
    return dict(json.loads(done.out.strip().splitlines()[-1]))


ACCEPTED = {
    "mean over an element": "per-element-map",
    "shuffle without a seed": "per-element-map",
    "nested structures": "per-element-map",
    "no remainder": "per-element-map",
    "infinite": "per-element-map",
    "interleave over files": "starved-reads",
    "shuffle without a seed, options off": "serial-map",
    "random map above a pure one": "repeated-preprocessing",
    "shuffle below the map": "repeated-preprocessing",
    "random map above one that follows a shuffle": "repeated-preprocessing",
}
"""What must be accepted: the oracle does not simply refuse everything."""


@pytest.mark.framework
@pytest.mark.parametrize("half", ["first", "second"])
def test_no_hard_pipeline_is_rewritten_wrongly(doctor: Doctor, half: str) -> None:
    found = ran(doctor, "adversarial.py", half)
    seen = found["seen"]
    assert len(seen) >= 25
    assert {name: each["wrong"] for name, each in seen.items() if each["wrong"]} == {}
    refused = {name: each for name, each in seen.items() if name in found["must refuse"]}
    assert {name: each["accepted"] for name, each in refused.items() if each["accepted"]} == {}
    assert {name for name, each in refused.items() if each["calls"]} == set(), "Python was called without consent"
    for name, rule in ACCEPTED.items():
        if name in seen:
            assert any(each.startswith(rule) for each in seen[name]["accepted"]), (name, seen[name])


@pytest.mark.framework
def test_layers_of_keras_draw_by_chance_and_counters_do_not(doctor: Doctor) -> None:
    """That two passes of augmentation differ is no proof against a rewrite; that a counter went on is one."""
    seen = ran(doctor, "adversarial.py", "consent")
    drawn, counted = seen["layers of Keras"], seen["layers of Keras and a counter"]
    assert drawn
    assert {(each["safety"], each["differs"]) for each in drawn} == {("may change", False)}
    assert all("draws random numbers" in each["why"] for each in drawn)
    assert counted
    assert all(each["differs"] for each in counted)


@pytest.mark.framework
def test_op_determinism_keeps_stateful_maps_serial(doctor: Doctor) -> None:
    seen = ran(doctor, "adversarial.py", "determinism")["seen"]["op determinism"]
    assert seen["wrong"] == []
    assert not any(each.startswith("serial-map") for each in seen["accepted"])


@pytest.mark.framework
def test_no_random_pipeline_is_rewritten_wrongly(doctor: Doctor) -> None:
    seen = ran(doctor, "random_pipelines.py", "70")
    assert seen["wrong"] == []
    assert seen["pipelines"] >= 60
    # Which examples are drawn changes with the constants of our own code: about a third of them is accepted.
    assert seen["accepted"] >= 12, seen

"""Experiments on loaders, on real frameworks: they run, they see the right lines, they leave everything as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Doctor

SCRIPT = Path(__file__).with_name("loader_experiments.py")


def lab(doctor: Doctor, backend: str, kind: str) -> dict[str, Any]:
    ran = doctor.plain(str(SCRIPT), kind, backend=backend)
    assert ran.code == 0, ran.err
    seen = dict(json.loads(ran.out.strip().splitlines()[-1]))
    assert seen["differs"] == []
    assert seen["children"] == 0
    return seen


def line_of(text: str, place: int = 0) -> int:
    lines = [number for number, line in enumerate(SCRIPT.read_text().splitlines(), 1) if text in line]
    return lines[place]


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["jax", "torch", "tensorflow"])
def test_a_dataset_with_threads(doctor: Doctor, backend: str) -> None:
    seen = lab(doctor, backend, "dataset")
    trials = seen["trials"]
    expected = {"hot lines", "workers kept", "processes=2", *(("workers=1", "workers=4") if backend == "torch" else ())}
    assert expected <= set(trials), seen["gaps"]
    loop = trials["hot lines"]["loops"][0]
    assert (Path(loop["path"]).name, loop["line"]) == (SCRIPT.name, line_of("# the loop"))
    assert loop["share"] > 0.6
    assert loop["arrays"] is True
    assert 0 < loop["python_ns"] < loop["small_ns"]
    anew, kept = seen["times"]["workers kept"]
    assert min(anew) > 0.1e9, "Keras polls an empty queue for a tenth of a second"
    assert max(kept) < min(anew)
    assert trials["processes=2"]["start_s"] > 0


@pytest.mark.framework
def test_a_loader_with_processes(doctor: Doctor) -> None:
    seen = lab(doctor, "torch", "loader")
    assert set(seen["trials"]) == {"hot lines", "workers kept"}, seen["gaps"]
    assert seen["trials"]["hot lines"]["loops"] == [], "the loop over samples is torch's"


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_a_generator(doctor: Doctor, backend: str) -> None:
    seen = lab(doctor, backend, "generator")
    assert set(seen["trials"]) >= {"hot lines", "processes=2"}, seen["gaps"]
    assert seen["trials"]["processes=2"]["line"] == line_of("def endless")
    assert not [what for what, _ in seen["gaps"] if "worker processes" in what or "changed data" in what], seen["gaps"]
    loop = seen["trials"]["hot lines"]["loops"][0]
    assert loop["line"] == line_of("# the loop", 1), "not the loop that hands out batches"
    assert loop["arrays"] is True


@pytest.mark.framework
def test_arrays_in_another_precision(doctor: Doctor) -> None:
    seen = lab(doctor, "jax", "arrays")
    trial = seen["trials"]["epoch begun on cast arrays"]
    assert (trial["dtype"], trial["to"], trial["bytes"]) == ("float64", "float32", 40_000 * 64 * 8)
    as_is, cast = seen["times"]["epoch begun on cast arrays"]
    assert sum(cast) < sum(as_is)

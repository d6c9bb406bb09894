"""Batches read from a file in place of the pipeline that makes them, on real frameworks."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fitdoctor.lab.experiments.rehearsed import best
from fitdoctor.lab.job import Offer
from tests.conftest import Doctor

SCRIPT = Path(__file__).with_name("written_batches.py")


def tried(doctor: Doctor, kind: str, what: str, backend: str) -> dict[str, Any]:
    own = doctor.folder / "tmp"  # what other tests leave in the machine's folder meanwhile is not this one's
    own.mkdir()
    ran = doctor.plain(str(SCRIPT), kind, what, backend=backend, TMPDIR=str(own))
    assert ran.code == 0, ran.err
    seen: dict[str, Any] = json.loads(ran.out.strip().splitlines()[-1])
    assert seen["differs"] == []
    assert seen["left"] == []
    return seen


@pytest.mark.framework
@pytest.mark.parametrize(("backend", "what"), [("tensorflow", "epochs"), ("jax", "steps")])
def test_written_batches_are_read_and_trained_on(doctor: Doctor, backend: str, what: str) -> None:
    seen = tried(doctor, "computes", what, backend)
    assert list(seen["trials"]) == ["written beforehand", "rehearsed: written beforehand"], seen
    alone, trained = seen["trials"].values()
    assert alone["batches"] >= 2
    assert trained["whole"] is (what == "epochs")
    # Forty products of matrices for each of sixteen rows, or none: wide margins, others use the machine too.
    assert alone["ratio"] < 0.4
    assert trained["ratio"] < 0.6


@pytest.mark.framework
def test_what_waits_need_not_be_written(doctor: Doctor) -> None:
    seen = tried(doctor, "waits", "steps", "tensorflow")
    assert not seen["trials"]
    told = [reason for what, reason in seen["gaps"] if what == "experiment: batches written beforehand"]
    assert ["cores busy: the others could help" in reason for reason in told] == [True]


def test_other_changes_are_rehearsed_before_it() -> None:
    offers = [Offer(name, name, lambda whole: {}, last=name == "all") for name in ("all", "some", "more", "less")]
    job: Any = SimpleNamespace(offers=offers, results={"all": 0.1, "some": 0.5, "more": 0.3, "less": 0.9})
    assert [each.name for each in best(job)] == ["more", "some", "less"]
    job.results["less"] = 1.0
    assert [each.name for each in best(job)] == ["more", "some", "all"]

"""Loaders with other workers give the same batches, or are not accepted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.rewrites.workers import KEEPS
from tests.conftest import Doctor

SCRIPT = Path(__file__).with_name("loader_rewrites.py")


def run(doctor: Doctor, *cases: str, backend: str = "torch") -> dict[str, Any]:
    ran = doctor.plain(str(SCRIPT), *cases, backend=backend)
    assert ran.code == 0, ran.err
    return dict(json.loads(ran.out.strip().splitlines()[-1]))


@pytest.mark.framework
def test_copies_keep_order_and_attributes(doctor: Doctor) -> None:
    seen = run(doctor, "kept_loaders_keep_the_order", "every_attribute_is_kept")
    assert all(seen["kept_loaders_keep_the_order"].values()), seen["kept_loaders_keep_the_order"]
    kept = seen["every_attribute_is_kept"]
    assert kept["changed"] == ["num_workers", "persistent_workers", "prefetch_factor"]
    assert kept["title"] == "pictures"
    assert kept["is"]
    assert kept["equal"]
    assert kept["threads"] == [4, 1, True]


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_processes_draw_streams_of_their_own(doctor: Doctor, backend: str) -> None:
    seen = run(
        doctor,
        "streams_differ_and_repeat",
        "what_changes_between_epochs_reaches_the_processes",
        "a_process_that_is_stuck_is_ended",
        backend=backend,
    )
    streams = seen["streams_differ_and_repeat"]
    for kind in ("Random", "OwnGenerator"):
        assert streams[kind] == {"all differ": True, "same seed": True, "other seed": True}, kind
    assert streams["children"] == 0
    changes = seen["what_changes_between_epochs_reaches_the_processes"]
    assert changes == {"equal": True, "differ": True, "children": 0}
    stuck = seen["a_process_that_is_stuck_is_ended"]
    assert "no batch within 1 s" in stuck["said"]
    assert stuck["seconds"] < 20
    assert stuck["children"] == 0


@pytest.mark.framework
def test_optimising_measures_and_compares(doctor: Doctor) -> None:
    seen = run(doctor, "threads_for_what_waits", "random_numbers_need_consent", "a_wrong_rewrite_is_dropped")
    threads = seen["threads_for_what_waits"]
    assert threads["kept"]
    assert threads["kept"][0].startswith("workers=")
    assert threads["equal"]
    assert threads["own"] == 1
    assert "bit for bit" in threads["explanation"]
    random = seen["random_numbers_need_consent"]
    assert random["refused"]["kept"] == []
    assert "unsafe=True" in random["refused"]["dropped"].pop(KEEPS)
    assert all("draws random numbers" in reason for reason in random["refused"]["dropped"].values())
    assert "rng" in next(iter(random["own"]["dropped"].values()))
    assert random["state"], "looking at a loader draws nothing from the script's own streams"
    wrong = seen["a_wrong_rewrite_is_dropped"]
    assert wrong["kept"] == []
    assert "unsafe=True" in wrong["dropped"].pop(KEEPS)
    assert set(wrong["dropped"].values()) == {"its batches are not those of the original"}


@pytest.mark.framework
def test_batches_that_stay_the_same_are_kept(doctor: Doctor) -> None:
    seen = run(doctor, "batches_are_kept_with_consent")["batches_are_kept_with_consent"]
    assert seen["kept"][-1] == KEEPS, seen["explanation"]
    assert seen["equal"], "two epochs, bit for bit"
    assert seen["untouched"], "what a training does to a batch does not reach what is kept"
    assert seen["length"] == 60
    reasons = {
        "random": "random numbers",
        "changing": "from epoch to epoch",
        "unsteady": "changes the dataset",
        "counting": "not those of the original|differs when it is made again",
    }
    for name, reason in reasons.items():
        assert KEEPS not in seen[name]["kept"], name
        assert re.search(reason, seen[name]["dropped"][KEEPS]), seen[name]


@pytest.mark.framework
def test_optimising_with_processes(doctor: Doctor) -> None:
    seen = run(doctor, "processes_for_what_computes", "a_loader_gets_workers")
    busy = seen["processes_for_what_computes"]
    # Whether they are faster is for the machine to say: two shared cores do not always have one to spare.
    assert "2 kept processes" in {*busy["kept"], *busy["dropped"]}
    assert "not those" not in str(busy["dropped"])
    assert busy["equal"]
    assert busy["children"] == 0
    loader = seen["a_loader_gets_workers"]
    assert loader["kept"], loader
    assert "persistent_workers=True" in loader["kept"][0]
    assert loader["equal"]
    assert loader["own"] == 0
    assert loader["children"] == 0


@pytest.mark.framework
def test_beside_tensorflow_processes_need_consent(doctor: Doctor) -> None:
    busy = run(doctor, "processes_for_what_computes", backend="tensorflow")["processes_for_what_computes"]
    assert "unsafe=True" in busy["dropped"]["2 kept processes"]
    assert busy["equal"]

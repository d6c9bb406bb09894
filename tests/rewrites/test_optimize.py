"""`fitdoctor.optimize`: faster and the same, or left alone with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.errors import CannotRun
from fitdoctor.rewrites import pulling
from fitdoctor.rewrites.optimized import Optimized
from tests.conftest import Doctor

SCRIPT = Path(__file__).with_name("optimizing.py")


def ran(doctor: Doctor, *names: str) -> dict[str, Any]:
    done = doctor.plain(str(SCRIPT), *names)
    assert done.code == 0, done.err[-3000:]
    return dict(json.loads(done.out.strip().splitlines()[-1]))


@pytest.mark.framework
def test_a_tiny_map_is_called_once_per_batch(doctor: Doctor) -> None:
    found = ran(doctor, "tiny_map", "healthy", "counting", "errors")
    seen = found["tiny map"]
    assert "per-element-map" in seen["kept"], seen["explanation"]
    assert seen["equal"]
    assert "identical over" in seen["explanation"]
    assert seen["explanation"] in seen["repr"]
    assert found["healthy"]["kept"] == []
    assert found["healthy"]["same"], "where nothing is better the user's own dataset comes back"
    assert "Nothing that keeps the data" in found["healthy"]["text"]
    assert found["counting"]["calls"] == 0
    assert found["counting"]["same"]
    assert "unsafe=True" in found["counting"]["text"]
    assert [kind for kind, _ in found["errors"]] == ["UsageError", "UsageError"]
    assert "builtins.list" in found["errors"][0][1]
    assert "is no folder" in found["errors"][1][1]


@pytest.mark.framework
def test_reads_that_wait_are_made_many_at_a_time_with_consent(doctor: Doctor) -> None:
    found = ran(doctor, "store_reads")
    assert found["store, no consent"]["same"]
    assert "side effects" in found["store, no consent"]["explanation"]
    seen = found["store"]
    assert "starved-reads" in seen["kept"], seen["explanation"]
    assert seen["equal"]


@pytest.mark.framework
def test_what_follows_a_shuffle_is_kept_before_it(doctor: Doctor) -> None:
    seen = ran(doctor, "shuffled_first")["shuffled first"]
    assert "repeated-preprocessing" in seen["kept"], seen["explanation"]
    assert "shuffled behind it" in seen["explanation"]
    assert seen["equal"]
    assert seen["second epoch"], "epochs are shuffled as they were"


@pytest.mark.framework
def test_samples_of_a_generator_are_stacked_in_python(doctor: Doctor) -> None:
    found = ran(doctor, "generator")
    assert found["generator, no consent"]["same"]
    for name in ("generator", "generator, whole"):
        assert "per-sample-generator" in found[name]["kept"], found[name]["explanation"]
        assert found[name]["equal"]
        assert "identical over" in found[name]["explanation"]
    assert "per-sample-generator" not in found["generator, ragged"]["kept"]
    assert found["generator, ragged"]["equal"]


@pytest.mark.framework
def test_decoding_is_kept_below_the_shuffle(doctor: Doctor) -> None:
    seen = ran(doctor, "cached")["decode"]
    assert "repeated-preprocessing" in seen["kept"], seen["explanation"]
    assert seen["equal"]


def test_two_loaders_run_in_turns_and_drift_hits_both_alike() -> None:
    clock = iter(range(1, 1000))
    order: list[str] = []

    def block(name: str, factor: float) -> float:
        order.append(name)
        return factor * 1.01 ** next(clock)

    ratio = pulling.in_turns(lambda: block("before", 4.0), lambda: block("after", 1.0), 60)
    assert order[:6] == ["after", "before", "before", "after", "after", "before"]
    assert ratio.low < 0.25 < ratio.high
    assert ratio.high < 0.27


def test_data_that_cannot_be_begun_anew_is_no_loader() -> None:
    used_up = iter([1])
    puller = pulling.Puller(lambda: used_up)
    with pytest.raises(CannotRun, match="used up"):
        puller.block()


def test_what_comes_back_tells_what_was_done() -> None:
    made = Optimized("data", "- kept x", ("x",), (("y", "no"),))
    assert repr(made) == "<Optimized: - kept x>"

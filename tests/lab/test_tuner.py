"""Short epochs with and without the thread that tunes the pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.lab.bench import Seen
from fitdoctor.lab.experiments import without_tuner
from tests.conftest import Doctor

SCRIPT = Path(__file__).parent / "tuner.py"


@pytest.mark.parametrize(
    ("info", "between", "tried"),
    [
        ({"backend": "tensorflow", "adapter": "tf.data", "epochs": 5}, 0.2, True),
        ({"backend": "tensorflow", "adapter": "tf.data", "epochs": 5}, 0.001, False),
        ({"backend": "tensorflow", "adapter": "tf.data", "epochs": 1}, 0.2, False),
        ({"backend": "tensorflow", "adapter": "arrays", "epochs": 5}, 0.2, False),
        ({"backend": "jax", "adapter": "tf.data", "epochs": 5}, 0.2, False),
    ],
)
def test_it_is_tried_where_something_passes_between_epochs(info: dict[str, Any], between: float, tried: bool) -> None:
    assert (without_tuner.worth(Seen(1e6, info, {"between epochs": between})) > 0) is tried


def lab(doctor: Doctor, *arguments: str) -> dict[str, Any]:
    ran = doctor.plain(str(SCRIPT), *arguments, backend="tensorflow")
    assert ran.code == 0, ran.err
    seen = dict(json.loads(ran.out.strip().splitlines()[-1]))
    assert seen["differs"] == []
    assert seen["function"] is True
    return seen


@pytest.mark.framework
def test_epochs_both_ways_and_everything_is_as_it_was(doctor: Doctor) -> None:
    seen = lab(doctor)
    assert list(seen["trials"]) == [without_tuner.STEPS, without_tuner.LOADER], seen["gaps"]
    between = seen["trials"][without_tuner.STEPS]["between_ns"]
    assert len(between["as_is"]) == len(between["without"]) >= without_tuner.ENDS * 3
    assert all(each > 0 for every in between.values() for each in every)


@pytest.mark.framework
@pytest.mark.parametrize(("how", "why"), [("off", "off already"), ("endless", "keeps one iterator")])
def test_where_there_is_nothing_to_try_it_says_so(doctor: Doctor, how: str, why: str) -> None:
    seen = lab(doctor, how)
    assert not seen["trials"]
    assert [reason for what, reason in seen["gaps"] if without_tuner.NAME in what and why in reason], seen["gaps"]

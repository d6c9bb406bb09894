"""Experiments about the run as a whole, on real frameworks: they run, and they leave everything as it was."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from fitdoctor.lab.bench import Seen
from fitdoctor.lab.experiments import batch_size, dispatch, longer_epochs
from tests.conftest import Doctor

SCRIPT = Path(__file__).with_name("run_experiments.py")


@pytest.mark.framework
@pytest.mark.parametrize(
    ("backend", "kind"), [("tensorflow", "dataset"), ("tensorflow", "endless"), ("jax", "arrays"), ("torch", "arrays")]
)
def test_they_run_and_leave_no_trace(doctor: Doctor, backend: str, kind: str) -> None:
    ran = doctor.plain(str(SCRIPT), kind, backend=backend)
    assert ran.code == 0, ran.err
    seen = json.loads(ran.out.strip().splitlines()[-1])
    assert seen["differs"] == []
    assert all(seen["kept"])
    assert seen["accumulation"] == 2
    assert set(seen["trials"]) == {"longer epochs", "a callback that does nothing"}, seen["gaps"]
    epochs, one = seen["trials"]["longer epochs"]
    if kind == "dataset":
        assert statistics.median(one) < statistics.median(epochs), "an epoch makes new iterators over a dataset"


def seen(**info: object) -> Seen:
    shares = {"fetch": 0.05, "run": 0.5, "callbacks": 0.0, "sync": 0.4, "loop": 0.05, "between epochs": 0.2}
    return Seen(1e6, {"adapter": "arrays", "epochs": 100, **info}, shares)


def test_longer_epochs_are_tried_where_there_are_many_short_ones() -> None:
    assert longer_epochs.worth(seen()) == 0.2
    assert longer_epochs.worth(seen(epochs=4)) == 0.0, "a stop that comes late costs more"
    assert longer_epochs.worth(seen(adapter="generator")) == 0.0


def test_a_callback_that_does_nothing_is_tried_where_it_could_change_something() -> None:
    assert dispatch.worth(seen(async_possible=False)) == 0.0
    assert dispatch.worth(seen()) == 0.0, "nobody knows whether Keras would run it beside the steps"
    assert dispatch.worth(seen(async_possible=True, async_callbacks=False)) > 0
    assert dispatch.worth(seen(async_possible=True, async_callbacks=True, verbose="2")) > 0
    assert dispatch.worth(seen(async_possible=True, async_callbacks=True, verbose="auto")) == 0.0


def test_larger_batches_come_earlier_where_gradients_add_up() -> None:
    assert batch_size.worth(seen(accumulation=8)) > batch_size.worth(seen())

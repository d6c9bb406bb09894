"""The layers of real models, one by one, on every backend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.lab.bench import Seen
from fitdoctor.lab.experiments import jit, layers
from tests.conftest import Doctor

SCRIPT = Path(__file__).parent / "layer_costs.py"
BACKENDS = ["tensorflow", "jax", "torch"]
MARGIN = (1 / 15, 15.0)
"""What layers and optimizer may take together, over the step: it runs beside other tests on a shared machine."""


def lab(doctor: Doctor, backend: str, *args: str) -> dict[str, Any]:
    ran = doctor.plain(str(SCRIPT), *args, backend=backend)
    assert ran.code == 0, ran.err
    return dict(json.loads(ran.out.strip().splitlines()[-1]))


@pytest.mark.framework
@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_are_timed_alone_and_everything_is_as_it_was(doctor: Doctor, backend: str) -> None:
    seen = lab(doctor, backend)
    for name, model in seen.items():
        assert model["differs"] == [], name
        assert model["gaps"] == [], name
        whole = model["trials"]["layers"]
        # The shortest of both: whatever else runs on the machine makes them longer.
        assert MARGIN[0] < min(whole["changed"]) / min(whole["baseline"]) < MARGIN[1], name
        for each in whole["detail"]["layers"]:
            assert len(each["ns"]) == len(whole["changed"]), each
            assert each["why"] == "", each
            assert each["bytes"] > 0, each
    check_pictures(seen["pictures"]["trials"])
    check_words(seen["words"]["trials"])
    check_own(seen["own"]["trials"], backend)


def kinds(trials: dict[str, Any]) -> dict[str, Any]:
    return {each["kind"]: each for each in trials["layers"]["detail"]["layers"]}


def check_pictures(trials: dict[str, Any]) -> None:
    found = kinds(trials)
    assert {"Conv2D", "BatchNormalization", "Flatten", "Dropout", "Dense"} <= set(found)
    assert found["BatchNormalization"]["flops"] is None
    assert found["Conv2D"]["flops"] == 2 * 32 * 18 * 18 * 16 * 27
    (pooled,) = [name for name in trials if name.startswith("pooled instead of flattened: ")]
    detail = trials[pooled]["detail"]
    assert (detail["shape"], detail["params"]) == ([18, 18, 16], 18 * 18 * 16 * 64 + 64)
    assert detail["params_left"] == 16 * 64 + 64
    assert [name for name in trials if name.startswith("plainer activation: ")]


def check_words(trials: dict[str, Any]) -> None:
    found = kinds(trials)
    assert found["LSTM"]["flops"] == 2 * 32 * 12 * (32 * 128 + 32 * 128)
    assert found["Embedding"]["flops"] == 0
    (table,) = trials["update without tables"]["detail"]["tables"]
    assert table["rows"] == 20_000
    assert 0 < table["used"] <= 32 * 12
    (at_once,) = [each for name, each in trials.items() if name.startswith("all positions at once: ")]
    assert at_once["detail"]["positions"] == 12


def check_own(trials: dict[str, Any], backend: str) -> None:
    """The blocks are looked into, alike layers are timed once, and the NumPy layer is seen to run Python."""
    found = trials["layers"]["detail"]["layers"]
    # Before the first block nothing learns: its first layer needs no gradient of its input.
    assert sorted(each["count"] for each in found if each["kind"] == "Dense") == [1, 1, 1, 2]
    assert [each["count"] for each in found if each["kind"] == "LayerNormalization"] == [2]
    host = trials["one pass of the framework: squash"]
    lines = host["detail"]["lines"]
    assert sum(each["share"] for each in lines) > 0.1, lines
    symbols = {each["symbol"] for each in lines}
    assert "squash" in symbols, (backend, lines)


@pytest.mark.framework
def test_a_layer_that_fails_is_a_gap(doctor: Doctor) -> None:
    seen = lab(doctor, "torch", "raises")["own"]
    assert seen["differs"] == []
    ((what, reason),) = seen["gaps"]
    assert what == "experiment: the layers one by one"
    assert "RuntimeError" in reason


def seen(step_ms: float = 50.0, run: float = 0.9, **info: Any) -> Seen:
    shares = {"fetch": 1 - run, "transfer": 0.0, "run": run, "callbacks": 0.0, "sync": 0.0, "loop": 0.0}
    return Seen(step_ms * 1e6, info, shares)


def test_it_comes_only_where_the_step_computes_and_something_stands_out() -> None:
    recurrent = {"recurrent": ["lstm"]}
    assert layers.worth(seen(layers=recurrent)) > jit.worth(seen(layers=recurrent)), "a layer may be most of the step"
    assert layers.worth(seen(layers=recurrent, run=0.3)) == 0
    assert layers.worth(seen(layers=recurrent, step_ms=1.0)) == 0
    assert layers.worth(seen(layers=recurrent, run_eagerly=True)) == 0
    assert layers.worth(seen(layers={"kinds": {"Dense": 3}, "widest": None, "activations": {}})) == 0
    assert layers.worth(seen()) == 0
    assert layers.worth(seen(layers={"host": {"squash": "Squash"}})) > layers.worth(seen(layers=recurrent))

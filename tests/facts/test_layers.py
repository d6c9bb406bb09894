"""What layers cost in a step, read from the lab's trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fitdoctor.diagnosis import diagnose
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import resolve
from fitdoctor.facts.layers import Layers, line_of
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.model import Interval
from fitdoctor.report import json as report_json
from tests.captures.build import Run
from tests.report.contract import assert_contract

DENSE = {"name": "dense", "kind": "Dense", "count": 2, "params": 50, "bytes": 64, "names": ["dense", "dense_1"]}
OWN = {"name": "mine", "kind": "Mine", "count": 1, "ns": [], "names": ["mine"], "why": "Mine does not run alone"}


def capture(folder: Path, **trial: Any) -> Any:
    told = {"baseline_ms": 10.0, "changed_ms": 9.0, "layers": [OWN, {**DENSE, "ns": [3e6, 3e6, 3e6]}], **trial}
    return Run(noise=0.0).fit(compute_ms=10).trial("layers", **told).capture(folder)


def test_layers_are_counted_as_often_as_the_model_has_them(tmp_path: Path) -> None:
    layers = resolve(capture(tmp_path, optimizer_ns=[1e6, 1e6])).get(Layers)
    first, second = layers.costs
    assert first.seconds is not None
    assert first.seconds.mid == pytest.approx(0.006)
    assert (first.kind, first.flops) == ("Dense", None)
    assert second.seconds is None
    assert layers.named("dense_1") is first
    assert layers.named("other") is None
    assert layers.optimizer.mid == pytest.approx(0.001)
    assert layers.accounted.mid == pytest.approx(0.9)
    assert layers.share(Interval.exact(0.006)).mid == pytest.approx(0.6)


def test_layers_that_take_longer_alone_count_less(tmp_path: Path) -> None:
    layers = resolve(capture(tmp_path, changed_ms=15.0)).get(Layers)
    share = layers.share(Interval.exact(0.006))
    assert share.mid == pytest.approx(0.4)
    assert share.high == pytest.approx(0.6)
    assert layers.stays(Interval.exact(0.006)).mid == pytest.approx(0.6)


def test_without_the_experiment_there_is_no_fact(tmp_path: Path) -> None:
    run = Run().fit(compute_ms=10)
    with pytest.raises(MissingEvidence, match="did not try"):
        resolve(run.capture(tmp_path)).get(Layers)


@pytest.mark.parametrize(("meta", "remedy"), [({}, "try it in the script"), ({"experiments": False}, "--no-lab")])
def test_a_run_that_was_capped_is_not_told_to_be(tmp_path: Path, meta: dict[str, bool], remedy: str) -> None:
    with pytest.raises(MissingEvidence, match=remedy) as raised:
        resolve(Run(**meta).fit(compute_ms=10).capture(tmp_path)).get(Layers)
    assert "capped" not in str(raised.value)


def test_the_report_holds_every_layer(tmp_path: Path) -> None:
    report = diagnose(capture(tmp_path, optimizer_ns=[1e6]))
    data = assert_contract(report_json.dumps(report))
    told = data["run"]["model"]
    assert [each["name"] for each in told["layers"]] == ["dense", "mine"]
    assert told["layers"][0]["ms"]["mid"] == pytest.approx(6.0)
    assert told["layers"][0]["forward_flops"] is None
    assert told["layers"][1]["ms"] is None
    assert told["layers"][1]["not_measured"] == "Mine does not run alone"
    assert told["accounted"]["mid"] == pytest.approx(0.9)


SCRIPT = """\
import keras
from keras import layers

a = layers.Dense(64)
b = keras.layers.Dense(units=128)
c = layers.Dense(SIZE, name="last")
d = layers.LSTM(SIZE)
"""


@pytest.mark.parametrize(
    ("kind", "name", "width", "line"),
    [
        ("Dense", "dense_1", 128, 5),
        ("Dense", "last", 7, 6),
        ("Dense", "dense", 7, None),
        ("LSTM", "lstm", 9, 7),
        ("GRU", "gru", 9, None),
    ],
)
def test_where_a_layer_is_made(kind: str, name: str, width: int, line: int | None) -> None:
    found = line_of(SourceTree((SourceFile("train.py", SCRIPT),)), kind, name, width)
    assert (found.line if found else None) == line


def test_a_model_that_was_not_built_is_not_judged(tmp_path: Path) -> None:
    report = diagnose(Run().fit(compute_ms=10, layers=None).capture(tmp_path))
    reasons = {each.rule: each.gap.reason for each in report.unknown}
    assert reasons["flatten-blowup"] == "the model was not built yet when the training began"

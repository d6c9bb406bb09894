"""What each stage costs, from what the lab pulled out of every prefix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fitdoctor.facts import resolve
from fitdoctor.facts.input_pipeline import InputPipeline, Operator
from tests.captures.build import Run

DATASET: list[dict[str, Any]] = [
    {"op": "Prefetch", "inputs": [1], "buffer": -1},
    {"op": "Batch", "inputs": [2], "batch": 32},
    {"op": "Map", "inputs": [3], "elements": 1000, "bytes": 4096},
    {"op": "TensorSlice", "inputs": [], "elements": 1000, "bytes": 4096},
]


def pulled(run: Run, *prefixes: tuple[str, float, float]) -> Run:
    """Add what the lab pulled: operator, milliseconds per element, cores busy; sources first."""
    for stage, (op, ms, cores) in enumerate(prefixes):
        detail = {"unit": "ns per element", "stage": stage, "op": op, "of": len(prefixes), "cores": cores}
        run.trial(f"prefix {stage}: {op}", changed_ms=ms, **detail)
    return run


def operators(run: Run, folder: Path) -> dict[str, Operator]:
    pipeline = resolve(run.capture(folder)).get(InputPipeline)
    assert pipeline.operators is not None
    return {each.op: each for each in pipeline.operators}


def test_what_an_operator_adds_is_its_own(tmp_path: Path) -> None:
    run = Run(noise=0.001).fit(input_ms=30, dataset=DATASET)
    pulled(run, ("TensorSlice", 0.01, 1.0), ("Map", 1.01, 2.0), ("Batch", 32.8, 1.9), ("Prefetch", 32.8, 1.9))
    found = operators(run, tmp_path)
    assert {op: each.per_step for op, each in found.items()} == {
        "Prefetch": 1.0, "Batch": 1.0, "Map": 32.0, "TensorSlice": 32.0,
    }  # fmt: skip
    cost = found["Map"].cost
    assert cost is not None
    assert cost.wall is not None
    assert cost.cpu is not None
    assert cost.waiting is not None
    assert cost.wall.mid == pytest.approx(0.032, rel=0.02)
    assert cost.cpu.mid == pytest.approx(32 * (1.01 * 2 - 0.01) / 1e3, rel=0.02)
    assert cost.wall.low < cost.wall.mid < cost.wall.high
    assert cost.waiting.mid == 0
    assert found["Prefetch"].cost is not None
    assert found["Prefetch"].cost.wall is not None
    assert found["Prefetch"].cost.wall.mid == pytest.approx(0, abs=2e-4)


def test_the_whole_pipeline_is_the_loader_alone(tmp_path: Path) -> None:
    run = Run(noise=0.001).fit(input_ms=30, dataset=DATASET)
    pulled(run, ("TensorSlice", 0.01, 1.0), ("Map", 1.01, 2.0), ("Batch", 32.8, 1.9), ("Prefetch", 0, 1))
    run.tables["trials"] = [row for row in run.tables["trials"] if "Prefetch" not in row[0]]
    run.trial("loader alone", changed_ms=34, cores=1.9)
    cost = operators(run, tmp_path)["Prefetch"].cost
    assert cost is not None
    assert cost.wall is not None
    assert cost.wall.mid == pytest.approx(0.0012, rel=0.2)
    alone = Run(noise=0.001).fit(dataset=DATASET).trial("loader alone", changed_ms=34, cores=1.9)
    assert all(each.cost is None for each in operators(alone, tmp_path).values())


def test_where_no_core_is_busy_everybody_waits(tmp_path: Path) -> None:
    dataset = [{"op": "Map", "inputs": [1]}, {"op": "TensorSlice", "inputs": []}]
    run = Run(noise=0.001).fit(input_ms=30, dataset=dataset)
    pulled(run, ("TensorSlice", 0.01, 1.0), ("Map", 5.01, 0.1))
    cost = operators(run, tmp_path)["Map"].cost
    assert cost is not None
    assert cost.waiting is not None
    assert cost.waiting.mid == pytest.approx(0.0045, rel=0.02)


def test_options_hand_on_what_they_are_given(tmp_path: Path) -> None:
    dataset = [{"op": "Map", "inputs": [1]}, {"op": "Options", "inputs": [2]}, {"op": "Range", "inputs": []}]
    run = Run(noise=0.001).fit(dataset=dataset)
    for stage, op, ms in ((0, "Range", 1.0), (2, "Map", 5.0)):
        run.trial(f"prefix {stage}: {op}", changed_ms=ms, cores=1.0, stage=stage, op=op, of=3)
    found = operators(run, tmp_path)
    cost = found["Map"].cost
    assert cost is not None
    assert cost.wall is not None
    assert cost.wall.mid == pytest.approx(0.004, rel=0.02)
    assert found["Options"].cost is None


def test_elements_of_fused_operators_are_counted_for_the_last_of_them(tmp_path: Path) -> None:
    dataset = [{"op": "Batch", "inputs": [1]}, {"op": "Map", "inputs": [2]}, {"op": "Range", "inputs": []}]
    ran = ({"name": "MapAndBatch"}, {"name": "Range", "per_step": 8})
    found = operators(Run().fit(dataset=dataset).live(*ran), tmp_path)
    assert {op: each.per_step for op, each in found.items()} == {"Batch": 1.0, "Map": None, "Range": 8.0}


def test_a_cache_needs_what_all_elements_need(tmp_path: Path) -> None:
    found = operators(Run().fit(dataset=DATASET), tmp_path)
    assert found["Map"].cache_bytes == 4096 * 1000
    assert found["Batch"].cache_bytes is None


def test_elements_per_step_are_counted_where_no_batch_size_tells(tmp_path: Path) -> None:
    dataset = [
        {"op": "Batch", "inputs": [1], "batch": 8},
        {"op": "Filter", "inputs": [2], "site": ["train.py", 3]},
        {"op": "Range", "inputs": []},
    ]
    ran = ({"name": "Batch"}, {"name": "Filter", "per_step": 8}, {"name": "Range", "per_step": 24})
    assert {op: each.per_step for op, each in operators(Run().fit(dataset=dataset).live(*ran), tmp_path).items()} == {
        "Batch": 1.0, "Filter": 8.0, "Range": 24.0,
    }  # fmt: skip
    assert operators(Run().fit(dataset=dataset), tmp_path)["Range"].per_step is None


def test_prefixes_of_another_pipeline_say_nothing(tmp_path: Path) -> None:
    run = pulled(Run().fit(dataset=DATASET), ("TensorSlice", 0.01, 1.0), ("Map", 1.0, 1.0))
    assert all(each.cost is None for each in operators(run, tmp_path).values())


def test_a_capture_of_an_earlier_version_is_a_chain(tmp_path: Path) -> None:
    old = [{"op": "Batch"}, {"op": "Map"}, {"op": "TensorSlice"}]
    found = operators(Run().fit(dataset=old), tmp_path)
    assert [each.inputs for each in found.values()] == [(1,), (2,), ()]
    assert found["Map"].runs_as is None


def test_operators_that_take_from_themselves_are_read_as_a_chain(tmp_path: Path) -> None:
    """Such a capture is damaged; whoever follows inputs must come to an end."""
    circle = [{"op": "Batch", "inputs": [1]}, {"op": "Map", "inputs": [0]}]
    assert [each.inputs for each in operators(Run().fit(dataset=circle), tmp_path).values()] == [(1,), ()]

"""Whose work each operator that ran does."""

from __future__ import annotations

import pytest

from fitdoctor.facts.input_pipeline import Operator
from fitdoctor.facts.live_pipeline import Node
from fitdoctor.facts.matching import Matched, match


def written(*names: str) -> list[Operator]:
    return [Operator(name, inputs=(place + 1,) if place + 1 < len(names) else ()) for place, name in enumerate(names)]


def node(name: str, path: tuple[int, ...] = (), inputs: int = 0) -> Node:
    below = tuple((*path, place) for place in range(inputs))
    return Node(path, name, below, None, None, None, None, None, 0.0)


def ran(*names: str) -> list[Node]:
    return [node(name, (0,) * place, int(place + 1 < len(names))) for place, name in enumerate(names)]


def pairs(found: Matched) -> dict[int, str]:
    return {place: node.name for place, node in found.runs_as.items()}


@pytest.mark.parametrize(
    ("wrote", "runs", "expected", "added"),
    [
        ("Batch Map TensorSlice", "Prefetch MapAndBatch TensorSlice", "MapAndBatch MapAndBatch TensorSlice",
         "Prefetch"),
        (
            "Prefetch Batch ParallelMap Shuffle Repeat TensorSlice",
            "Prefetch ParallelBatch ParallelMapV2 Shuffle ForeverRepeat TensorSlice",
            "Prefetch ParallelBatch ParallelMapV2 Shuffle ForeverRepeat TensorSlice",
            "",
        ),
        ("Batch Prefetch Map Range", "Prefetch Batch Prefetch ParallelMapV2 Range",
         "Batch Prefetch ParallelMapV2 Range", "Prefetch"),
        ("Options Batch Cache Map Range", "Batch MemoryCache Map Range", "- Batch MemoryCache Map Range", ""),
        ("Batch FlatMap Tensor", "Prefetch BatchV2 FlatMap FromTensor", "BatchV2 FlatMap FromTensor", "Prefetch"),
        ("Map Map Batch Range", "ParallelMapV2 Batch Range", "ParallelMapV2 - Batch Range", ""),
        ("Batch Map TFRecord TensorSlice", "Prefetch MapAndBatch FlatMap TensorSlice",
         "MapAndBatch MapAndBatch FlatMap TensorSlice", "Prefetch"),
        ("Batch Repeat Shuffle Range", "Batch ShuffleAndRepeatV2 Range",
         "Batch ShuffleAndRepeatV2 ShuffleAndRepeatV2 Range", ""),
        ("Batch Range", "Mystery", "- -", "Mystery"),
    ],
)  # fmt: skip
def test_chains(wrote: str, runs: str, expected: str, added: str) -> None:
    found = match(written(*wrote.split()), ran(*runs.split()))
    assert pairs(found) == {place: name for place, name in enumerate(expected.split()) if name != "-"}
    assert [each.name for each in found.added] == added.split()


def test_inputs_side_by_side() -> None:
    operators = [
        Operator("Batch", inputs=(1,)),
        Operator("Zip", inputs=(4, 2)),
        Operator("Map", inputs=(3,)),
        Operator("Range"),
        Operator("Repeat", inputs=(5,)),
        Operator("TensorSlice"),
    ]
    nodes = [
        node("Prefetch", (), 1), node("Batch", (0,), 1), node("Zip", (0, 0), 2), node("ForeverRepeat", (0, 0, 0), 1),
        node("TensorSlice", (0, 0, 0, 0)), node("ParallelMapV2", (0, 0, 1), 1), node("Range", (0, 0, 1, 0)),
    ]  # fmt: skip
    found = match(operators, nodes)
    assert pairs(found) == {0: "Batch", 1: "Zip", 2: "ParallelMapV2", 3: "Range", 4: "ForeverRepeat", 5: "TensorSlice"}
    assert [each.name for each in found.added] == ["Prefetch"]


def test_nothing_ran_or_nothing_was_written() -> None:
    assert match(written("Batch", "Range"), ()) == Matched({}, ())
    assert [each.name for each in match((), ran("Prefetch", "Range")).added] == ["Prefetch", "Range"]

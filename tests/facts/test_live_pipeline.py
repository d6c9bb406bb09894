"""From looks at a running pipeline to what each of its operators did."""

from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor.facts.live_pipeline import Node, Setting, live
from tests.captures.build import Run

AUTO = {"parallelism": (2, 2, True)}
PIPELINE = (
    {"name": "Prefetch", "bytes": 2048, "buffered": 3, "parameters": {"buffer_size": (4, 1e18, True)}},
    {"name": "MapAndBatch", "ms": 5.0, "bytes": 2048, "parameters": AUTO},
    {"name": "TensorSlice", "per_step": 32, "ms": 0.002, "bytes": 64},
)


def nodes(run: Run, folder: Path) -> dict[str, Node]:
    capture = run.capture(folder)
    return {node.name: node for node in live(capture.operators, frozenset(call.id for call in capture.calls))}


def test_counters_are_differenced(tmp_path: Path) -> None:
    found = nodes(Run().fit().live(*PIPELINE), tmp_path)
    assert list(found) == ["Prefetch", "MapAndBatch", "TensorSlice"]
    slices, fused, prefetch = found["TensorSlice"], found["MapAndBatch"], found["Prefetch"]
    assert (slices.per_step, fused.per_step) == (32, 1)
    assert fused.seconds is not None
    assert fused.seconds.mid == pytest.approx(0.005)
    assert fused.seconds.low <= fused.seconds.mid <= fused.seconds.high
    assert slices.bytes_each == 64
    assert fused.parallel == Setting(2, 2, True)
    assert prefetch.buffer == Setting(4, None, True), "a bound that is none is not shown"
    assert prefetch.buffered == 3


def test_epochs_that_were_looked_at_once_count_from_their_start(tmp_path: Path) -> None:
    run = Run().fit()
    for epoch in range(4):
        run.live(*PIPELINE, looks=1, every=10, iterator=epoch + 1, since=10 * epoch)
    found = nodes(run, tmp_path)
    assert found["TensorSlice"].per_step == 32
    assert found["MapAndBatch"].seconds is not None
    assert found["MapAndBatch"].seconds.mid == pytest.approx(0.005)


def test_of_several_iterators_the_one_that_feeds_the_steps_counts(tmp_path: Path) -> None:
    """A loop may hold one over its validation data, which gives an element now and then."""
    other = ({"name": "Batch", "per_step": 0.05, "ms": 1.0}, {"name": "Range", "per_step": 0.4})
    found = nodes(Run().fit(kind="loop").live(*PIPELINE).live(*other, iterator=2), tmp_path)
    assert set(found) == {"Prefetch", "MapAndBatch", "TensorSlice"}


def test_one_look_at_the_beginning_tells_names_and_no_numbers(tmp_path: Path) -> None:
    found = nodes(Run().fit().live(*PIPELINE, looks=1, every=0), tmp_path)
    assert found["MapAndBatch"].parallel == Setting(2, 2, True)
    assert (found["MapAndBatch"].seconds, found["MapAndBatch"].per_step) == (None, None)


def test_iterators_made_for_single_elements_do_not_count(tmp_path: Path) -> None:
    files = (
        {"name": "ParallelInterleaveV4", "inputs": [1, 2, 3]},
        {"name": "TensorSlice", "inputs": [], "per_step": 0.1},
        {"name": "TFRecord", "inputs": []},
        {"name": "TFRecord", "inputs": []},
    )
    assert set(nodes(Run().fit().live(*files), tmp_path)) == {"ParallelInterleaveV4", "TensorSlice"}


def test_what_the_iterator_and_a_cache_add_inside_is_no_operator(tmp_path: Path) -> None:
    ran = (
        {"name": "Root"},
        {"name": "BatchV2"},
        {"name": "MemoryCache"},
        {"name": "MemoryCacheImpl"},
        {"name": "Range"},
    )
    assert list(nodes(Run().fit().live(*ran), tmp_path)) == ["BatchV2", "MemoryCache", "Range"]


def test_what_is_made_anew_counts_anew(tmp_path: Path) -> None:
    """Below a repeat: only windows in which it lived tell how fast it was."""
    run = Run().fit().live({"name": "ForeverRepeat"}, {"name": "Range", "per_step": 4})
    rows = run.tables["operators"]
    for place, row in enumerate(rows):
        if row[6] == "Range" and row[1] > 60:  # another node, that has given nothing yet
            rows[place] = (*row[:5], 7, *row[6:8], row[8] - 240, *row[9:])
        elif row[6] == "ForeverRepeat" and row[1] > 60:
            rows[place] = (*row[:7], "[7]", *row[8:])
    assert nodes(run, tmp_path)["Range"].per_step == 4


def test_a_pipeline_that_came_to_its_end_is_told_whole(tmp_path: Path) -> None:
    # TensorFlow drops what is below `take` once that has given all: a look at this shows half of the pipeline.
    run = Run().fit().live({"name": "FiniteTake"}, {"name": "Range", "per_step": 4})
    found = nodes(run.live({"name": "FiniteTake"}, looks=1), tmp_path)
    assert list(found) == ["FiniteTake", "Range"]


def test_nobody_looked(tmp_path: Path) -> None:
    assert nodes(Run().fit(), tmp_path) == {}
    assert live((), frozenset({1})) == ()

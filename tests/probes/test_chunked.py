"""Reads from chunked files: which chunks a selection needs, counted against the truth, and nothing changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitdoctor.probes import chunked
from fitdoctor.probes.chunked import ChunkProbe, touched
from fitdoctor.probes.install import ImportWatch, Patches
from fitdoctor.probes.recorder import Recorder
from fitdoctor.probes.steps import Tracker
from tests.probes.test_reads import Sink

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr", "3")

sides = st.integers(1, 12)
axes = st.one_of(
    st.integers(-5, 11),
    st.slices(12),
    st.lists(st.integers(0, 11), min_size=1, max_size=6, unique=True).map(sorted),
)


@given(st.tuples(sides, sides), st.tuples(axes, axes))
def test_chunks_of_a_selection(chunks: tuple[int, int], selection: tuple[Any, Any]) -> None:
    shape = (12, 12)
    found = touched(selection, shape, chunks)
    rows, columns = (np.atleast_1d(np.arange(12)[each]) for each in selection)
    if any(isinstance(each, slice) and each.step is not None and each.step < 0 for each in selection):
        return  # h5py takes no such slices
    expected = len({row // chunks[0] for row in rows}) * len({column // chunks[1] for column in columns})
    assert found is not None
    if not any(isinstance(each, slice) and (each.step or 1) > 1 for each in selection):
        assert found[0] == expected
    # Strides may leap over chunks: then the count is an upper bound.
    assert found[0] >= expected
    assert found[1] == len(rows)


@pytest.mark.parametrize(
    ("selection", "count"),
    [(np.int64(3), 2), (..., 6), ((..., 0), 3), (np.array([1, 9]), 4), ((), 6)],
)
def test_other_ways_to_say_it(selection: Any, count: int) -> None:
    found = touched(selection, (12, 8), (4, 4))
    assert found is not None
    assert found[0] == count


@pytest.mark.parametrize("selection", [np.ones(12, bool), "name", (1, 2, 3)])
def test_what_is_unclear_is_not_guessed(selection: Any) -> None:
    assert touched(selection, (12, 8), (4, 4)) is None


class Watched:
    def __init__(self) -> None:
        self.sink = Sink()
        self.recorder = Recorder(self.sink, 0)
        self.tracker = Tracker(self.recorder)
        self.patches = Patches(self.recorder)
        ChunkProbe(self.tracker, self.patches).attach(ImportWatch(self.recorder))

    def __enter__(self) -> Watched:
        self.tracker.begin_loop(None, "loop", compiled=True)
        return self

    def __exit__(self, *error: object) -> None:
        self.patches.undo()

    def info(self) -> dict[str, Any]:
        self.recorder.flush()
        return dict(json.loads(self.sink.rows["calls"][-1][-1]))


DATA = np.arange(200 * 16, dtype="float32").reshape(200, 16)


ONE_CHUNK = 1280


def hdf5(folder: Path, cache: int = ONE_CHUNK) -> Any:
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=DATA, chunks=(20, 16), compression="gzip")
        file.create_dataset("flat", data=DATA)
    return h5py.File(folder / "x.h5", "r", rdcc_nbytes=cache)["x"]


def zarr_array(folder: Path) -> Any:
    made = zarr.create_array(str(folder / "x.zarr"), shape=DATA.shape, chunks=(20, 16), dtype="float32")
    made[:] = DATA
    return zarr.open_array(str(folder / "x.zarr"), mode="r")


@pytest.mark.parametrize("make", [hdf5, zarr_array], ids=["HDF5", "Zarr"])
def test_random_rows_need_whole_chunks(make: Any, tmp_path: Path) -> None:
    dataset = make(tmp_path)
    rows = np.random.default_rng(0).permutation(200)
    with Watched() as watched:
        for row in rows:
            assert (dataset[int(row)] == DATA[row]).all()
        found = watched.info()["chunked"]
        kept = chunked.most_read()
    assert found["used"] == DATA.nbytes
    assert found["touched"] > 15 * found["used"]
    assert (found["reads"], found["rows"], found["chunk_rows"]) == (200, 200, 20)
    assert found["site"][0] == __file__
    assert kept is not None
    assert kept.layout.file.startswith(str(tmp_path))
    assert str(tmp_path) not in json.dumps(found["chunk_bytes"])


def test_rows_in_order_need_each_chunk_once(tmp_path: Path) -> None:
    dataset = hdf5(tmp_path)
    with Watched() as watched:
        for row in range(200):
            dataset[row]
        dataset[0:200]
        found = watched.info()["chunked"]
    assert found["touched"] == found["used"] == 2 * DATA.nbytes


def test_a_cache_that_holds_all_chunks_unpacks_each_once(tmp_path: Path) -> None:
    dataset = hdf5(tmp_path, cache=DATA.nbytes + 1)
    rows = np.random.default_rng(0).permutation(200)
    with Watched() as watched:
        for row in rows:
            assert (dataset[int(row)] == DATA[row]).all()
        found = watched.info()["chunked"]
    assert found["touched"] == found["used"] == found["all_bytes"] == DATA.nbytes
    assert found["chunks"] == 10


def test_chunks_that_just_fill_the_cache_do_not_stay_in_it(tmp_path: Path) -> None:
    dataset = hdf5(tmp_path, cache=DATA.nbytes)
    with Watched() as watched:
        for row in np.random.default_rng(0).permutation(200):
            dataset[int(row)]
        found = watched.info()["chunked"]
    assert found["touched"] > found["all_bytes"]


def test_files_without_chunks_and_reads_outside_of_a_training_are_no_matter(tmp_path: Path) -> None:
    dataset = hdf5(tmp_path)
    with Watched() as watched:
        dataset.file["flat"][3]
        assert "chunked" not in watched.info()
        with pytest.raises((IndexError, ValueError)):
            dataset[500]
    assert h5py.Dataset.__getitem__.__module__.startswith("h5py")

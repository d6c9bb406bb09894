"""Reads from a chunked file in the order of its chunks, in turns with those the user makes."""

from __future__ import annotations

import collections
import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BLOCK_SECONDS, Job
from fitdoctor.probes import chunked
from fitdoctor.probes.chunked import Layout

NAME = "chunk by chunk"
TRAINS = False
MOST_BYTES = 256 << 20
WASTE = 1.2
"""Bytes of chunks per byte used, from which there is something to gain."""


def worth(seen: Seen) -> float:
    """Weigh what was read in vain."""
    found = seen.info.get("chunked") or {}
    return 2.0 if found.get("used") and found["touched"] > WASTE * found["used"] else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Make the user's last reads again, in turns with as many rows of whole chunks."""
    del job, seen
    reads = chunked.most_read()
    if reads is None or not reads.recent:
        raise CannotRun("the reads were not kept", do="start the script with fitdoctor run")
    layout = collections.Counter(each for each, _ in reads.recent).most_common(1)[0][0]
    selections = [selection for each, selection in reads.recent if each == layout]
    if layout.chunk_bytes * _chunks_in_a_row(layout) > MOST_BYTES:
        raise CannotRun("one row of chunks takes more memory than an experiment may use", do="try it in the script")
    dataset = _opened(layout)
    replay, ordered = _Replay(dataset, layout, selections), _Ordered(dataset, layout, selections)
    detail = {"unit": "ns per row", "chunk_rows": layout.chunks[0], "chunk_bytes": layout.chunk_bytes}
    yield Comparison("whole chunks", ordered.block, replay.block, detail)


def _chunks_in_a_row(layout: Layout) -> int:
    count = 1
    for length, side in zip(layout.shape[1:], layout.chunks[1:], strict=True):
        count *= -(-length // side)
    return count


def _opened(layout: Layout) -> Any:
    """Open the user's file a second time, to read only."""
    with contextlib.suppress(OSError, KeyError, ValueError):
        if layout.kind == "HDF5":
            # With the cache that the user gave it.
            return sys.modules["h5py"].File(layout.file, "r", rdcc_nbytes=layout.cache or None)[layout.name]
        return sys.modules["zarr"].open_array(layout.file, path=layout.name, mode="r")
    raise CannotRun("the file could not be opened a second time", do="try it in the script")


class _Replay:
    """The reads the user made, again and again."""

    def __init__(self, dataset: Any, layout: Layout, selections: list[Any]) -> None:
        self._dataset = dataset
        self._rows = [
            (each, rows)
            for each in selections
            if (rows := (chunked.touched(each, layout.shape, layout.chunks) or (0, 0, ()))[1])
        ]
        self._at = 0

    def block(self) -> float:
        """Return nanoseconds per row."""
        start, done = time.perf_counter_ns(), 0
        while done == 0 or time.perf_counter_ns() - start < BLOCK_SECONDS * 1e9:
            selection, rows = self._rows[self._at % len(self._rows)]
            self._dataset[selection]
            self._at += 1
            done += rows
        return (time.perf_counter_ns() - start) / done


class _Ordered:
    """Whole rows of chunks in a shuffled order; the rows in them are handed out shuffled too."""

    def __init__(self, dataset: Any, layout: Layout, selections: list[Any]) -> None:
        import numpy as np

        self._dataset = dataset
        self._side, self._length = layout.chunks[0], layout.shape[0]
        # What the user asks for along the other axes.
        first = selections[0]
        self._rest = (
            tuple(first[1:]) if isinstance(first, tuple) and not any(each is Ellipsis for each in first) else ()
        )
        self._draw = np.random.default_rng(0)

    def block(self) -> float:
        """Return nanoseconds per row."""
        start, done = time.perf_counter_ns(), 0
        while done == 0 or time.perf_counter_ns() - start < BLOCK_SECONDS * 1e9:
            begin = int(self._draw.integers(-(-self._length // self._side))) * self._side
            wanted = (slice(begin, begin + self._side), *self._rest)
            rows = self._dataset[wanted]
            for place in self._draw.permutation(len(rows)):
                rows[place].copy()
            done += len(rows)
        return (time.perf_counter_ns() - start) / done

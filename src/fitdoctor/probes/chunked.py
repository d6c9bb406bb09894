"""Reads from chunked files (HDF5 through h5py, Zarr) while a training runs: bytes used, and bytes of chunks touched.

A file in chunks is read, and decompressed, a whole chunk at a time, however little of it is asked for.  Counts and
sizes go into the capture; which file it was stays in this process, for the lab.
"""

from __future__ import annotations

import collections
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fitdoctor.model import Site
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.cgroup import free_memory
from fitdoctor.probes.install import ImportWatch, Patches, hide, user_site
from fitdoctor.probes.steps import Tracker

KEPT = "_fitdoctor_chunks"
"""Attribute of a dataset: its `Layout`, or None where it has no chunks."""
RECENT = 256
"""Reads of a call that are kept for the lab."""
HDF5_CACHE = 1 << 20
"""Bytes of chunks that are kept where nobody says how many: a smaller one asked for again at once is not read again."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a dataset lies in its file, and where that is."""

    kind: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    itemsize: int
    file: str
    name: str
    cache: int = 0
    """Bytes of its chunks that the library keeps unpacked."""

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one chunk, unpacked."""
        size = self.itemsize
        for side in self.chunks:
            size *= side
        return size

    @property
    def count(self) -> int:
        """Chunks of the whole dataset."""
        found = 1
        for length, side in zip(self.shape, self.chunks, strict=True):
            found *= -(-length // side)
        return found

    @property
    def all_bytes(self) -> int:
        """Bytes of all its chunks, unpacked."""
        return self.count * self.chunk_bytes


@dataclass(slots=True)
class Reads:
    """What one call read."""

    call: ActiveCall
    site: Site | None
    layout: Layout
    count: int = 0
    rows: int = 0
    ns: int = 0
    used: int = 0
    touched: int = 0
    last: tuple[int, ...] | None = None
    recent: collections.deque[tuple[Layout, Any]] = field(default_factory=lambda: collections.deque(maxlen=RECENT))


_reads: dict[int, Reads] = {}


def most_read() -> Reads | None:
    """Return what the call of this process that read the most has read, for the lab."""
    return max(_reads.values(), key=lambda each: each.ns, default=None)


class ChunkProbe:
    """Hooks on what reads a part of a dataset."""

    def __init__(self, tracker: Tracker, patches: Patches) -> None:
        self.tracker = tracker
        self.recorder = tracker.recorder
        self.patches = patches
        _reads.clear()
        self.recorder.on_flush.append(self._save)

    def attach(self, watch: ImportWatch) -> None:
        """Wait for the libraries."""
        watch.when("h5py._hl.dataset", self._h5py)
        watch.when("zarr.core.array", self._zarr)

    def _h5py(self) -> None:
        self.patches.wrap(sys.modules["h5py._hl.dataset"].Dataset, "__getitem__", self._timed(_h5py_layout))

    def _zarr(self) -> None:
        self.patches.wrap(sys.modules["zarr.core.array"].Array, "__getitem__", self._timed(_zarr_layout))

    def _timed(self, layout_of: Callable[[Any], Layout | None]) -> Callable[[Any], Callable[..., Any]]:
        tracker, recorder, clock = self.tracker, self.recorder, time.perf_counter_ns

        def make(original: Any) -> Callable[..., Any]:
            def __getitem__(dataset: Any, selection: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
                call = tracker.current
                if call is None or not recorder.live:
                    return original(dataset, selection, *args, **kwargs)
                start = clock()
                try:
                    result = original(dataset, selection, *args, **kwargs)
                except BaseException as error:
                    hide(error)
                    raise
                took = clock() - start
                try:
                    held = vars(dataset)
                    layout = held[KEPT] if KEPT in held else held.setdefault(KEPT, layout_of(dataset))
                    if layout is not None:
                        self._note(call, layout, selection, getattr(result, "nbytes", layout.itemsize), took)
                except Exception as error:
                    recorder.fail("chunks", error)
                return result

            return __getitem__

        return make

    def _note(self, call: ActiveCall, layout: Layout, selection: Any, used: int, took: int) -> None:
        found = touched(selection, layout.shape, layout.chunks)
        if found is None:
            return
        reads = _reads.get(call.id)
        if reads is None:
            reads = _reads[call.id] = Reads(call, user_site(3), layout)
        count, rows, first = found
        if count == 1:
            kept = first == reads.last and layout.chunk_bytes <= (layout.cache or HDF5_CACHE)
            reads.last = first
            count = 0 if kept else 1
        else:
            reads.last = None
        if layout.chunk_bytes > reads.layout.chunk_bytes:
            reads.layout = layout
        reads.count += 1
        reads.rows += rows
        reads.ns += took
        reads.used += used
        reads.touched += count * layout.chunk_bytes
        if layout.cache > layout.all_bytes:
            # Every chunk is unpacked once, and stays.
            reads.touched = min(reads.touched, layout.all_bytes)
        reads.recent.append((layout, selection))

    def _save(self) -> None:
        for reads in list(_reads.values()):
            site, layout = reads.site, reads.layout
            reads.call.info["chunked"] = {
                "kind": layout.kind,
                "reads": reads.count,
                "rows": reads.rows,
                "ns": reads.ns,
                "used": reads.used,
                "touched": reads.touched,
                "chunk_bytes": layout.chunk_bytes,
                "chunk_rows": layout.chunks[0],
                "chunks": layout.count,
                "all_bytes": layout.all_bytes,
                "free_bytes": free_memory(),
                "site": [site.path, site.line] if site else None,
            }
            self.tracker.save(reads.call)


def _h5py_layout(dataset: Any) -> Layout | None:
    chunks = dataset.chunks
    if chunks is None or not dataset.shape:
        return None
    return Layout("HDF5", tuple(dataset.shape), tuple(chunks), int(dataset.dtype.itemsize), dataset.file.filename,
                  dataset.name, int(dataset.id.get_access_plist().get_chunk_cache()[1]))  # fmt: skip


def _zarr_layout(dataset: Any) -> Layout | None:
    if not dataset.shape:
        return None
    root = str(getattr(dataset.store, "root", ""))
    return Layout("Zarr", tuple(dataset.shape), tuple(dataset.chunks), int(dataset.dtype.itemsize), root, dataset.path)


def touched(selection: Any, shape: Sequence[int], chunks: Sequence[int]) -> tuple[int, int, tuple[int, ...]] | None:
    """Return how many chunks a selection needs, how many rows it asks for, and its first chunk; None if unclear.

    >>> touched(5, (100, 8), (10, 8)), touched(slice(5, 25), (100, 8), (10, 8)), touched([3, 55], (100, 8), (10, 4))
    ((1, 1, (0, 0)), (3, 20, (0, 0)), (4, 2, (0, 0)))
    """
    given = list(selection) if isinstance(selection, tuple) else [selection]
    place = next((i for i, each in enumerate(given) if each is Ellipsis), None)
    if place is not None:
        given[place : place + 1] = [slice(None)] * (len(shape) - len(given) + 1)
    if len(given) > len(shape):
        return None
    given += [slice(None)] * (len(shape) - len(given))
    count, rows, first = 1, 1, []
    for axis, (one, length, side) in enumerate(zip(given, shape, chunks, strict=True)):
        along = _along(one, length, side)
        if along is None:
            return None
        many, of, begin = along
        count *= many
        first.append(begin)
        if axis == 0:
            rows = of
    return count, rows, tuple(first)


def _along(one: Any, length: int, side: int) -> tuple[int, int, int] | None:
    """Return chunks, rows and the first chunk along one axis."""
    if isinstance(one, slice):
        start, stop, step = one.indices(length)
        rows = len(range(start, stop, step))
        if rows == 0 or step < 1:
            return (0, 0, 0) if rows == 0 else None
        last = start + (rows - 1) * step
        return min(rows, last // side - start // side + 1), rows, start // side
    if hasattr(one, "__index__") and getattr(one, "ndim", 0) == 0:
        place = int(one) % length if length else 0
        return 1, 1, place // side
    if str(getattr(one, "dtype", "")) == "bool" or (isinstance(one, list) and one and isinstance(one[0], bool)):
        return None
    try:
        places = [int(each) // side for each in one]
    except (TypeError, ValueError):
        return None
    return (len(set(places)), len(places), places[0]) if places else (0, 0, 0)

"""The user's own files, opened and read one by one, in turns with the same bytes from one record file."""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import itertools
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from fitdoctor.capture.scratch import real
from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.experiments.loader_alone import Puller
from fitdoctor.lab.job import BLOCK_SECONDS, Job
from fitdoctor.probes import mounts
from fitdoctor.probes.dataset_tf import reads_files, stages

NAME = "the same files from one record file"
TRAINS = False
MOST_FILES = 512
MOST_BYTES = 64 << 20
LOOK_SECONDS = 1.0
_PYTHON = ("PyDataset", "DataLoader")
BATCHES = 4
"""Batches that are made to see which files they need."""
_LITTLE = 1 << 10
"""Bytes a batch may read and still be called one that reads no files."""
_WHOLE = 0.9
"""Share of the bytes of opened files that must have been read to say that they were read whole."""
_NOT_DATA = (".py", ".pyc", ".so")


def worth(seen: Seen) -> float:
    """Weigh loaders that may read files; objects that are fetched were timed in the run."""
    if seen.info.get("fetches") or seen.info.get("chunked"):
        return 0.0
    if seen.info.get("adapter") == "tf.data":
        return 1.5 if any(each.get("reads") for each in seen.info.get("dataset") or ()) else 0.0
    in_processes = seen.info.get("multiprocessing")
    return 0.4 if seen.info.get("adapter") in _PYTHON and not in_processes else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Read files as the pipeline does, in turns with one record file."""
    if seen.info.get("adapter") == "tf.data":
        yield _in_tensorflow(job)
    else:
        yield _in_python(job, int(seen.info.get("workers") or 1))


def _detail(paths: list[str], per_batch: float, workers: int) -> dict[str, Any]:
    return {
        "unit": "ns per batch",
        "files": per_batch,
        "file_bytes": sum(map(_size, paths)) / len(paths),
        "mount": mounts.kind_of(os.path.dirname(paths[0])),
        "workers": workers,
    }


def _limited(paths: Iterable[str]) -> list[str]:
    """Keep regular files that can be opened, as many as are allowed."""
    kept: list[str] = []
    size = 0
    for path in dict.fromkeys(paths):
        with contextlib.suppress(OSError, ValueError):
            found = real.stat(path)
            size += found.st_size
            if stat.S_ISREG(found.st_mode) and size <= MOST_BYTES and len(kept) < MOST_FILES:
                kept.append(path)
    return kept


# --- tf.data ------------------------------------------------------------------------------------------


def _in_tensorflow(job: Job) -> Comparison:
    tf = sys.modules["tensorflow"]
    every = list(stages(job.given.get("x")))
    place = max((i for i, stage in enumerate(every) if reads_files(stage)), default=None)
    if place is None or place + 1 >= len(every):
        raise CannotRun("no operator of this pipeline reads files by their names")
    paths = _limited(_strings(every[place + 1]))
    if not paths:
        raise CannotRun(
            "the names of the files could not be told from the elements below the map that reads them",
            do="let the elements below that map be the paths",
        )
    own = getattr(every[place], "_num_parallel_calls", None)
    rows = job.batch_rows
    single = tf.data.Dataset.from_tensor_slices(paths).repeat().map(tf.io.read_file, num_parallel_calls=own)
    record = _record_file(tf, paths)
    joint = tf.data.TFRecordDataset(f"/proc/self/fd/{record.fileno()}").repeat()
    pullers = [Puller(_begin(data.batch(rows).prefetch(2))) for data in (single, joint)]
    for puller in pullers:
        puller.block()

    def changed() -> float:
        assert not record.closed
        return pullers[1].block()

    return Comparison("one record file", changed, pullers[0].block, _detail(paths, rows, 1))


def _begin(data: Any) -> Callable[[], Iterator[Any]]:
    return lambda: iter(data)


def _strings(dataset: Any) -> Iterator[str]:
    """Yield the strings in the first elements of a dataset."""
    from keras import tree

    until = time.monotonic() + LOOK_SECONDS
    for element in dataset.take(MOST_FILES):
        for leaf in tree.flatten(element):
            if getattr(leaf, "dtype", None) == "string":
                found = leaf.numpy()
                yield from map(os.fsdecode, found.reshape(-1).tolist() if hasattr(found, "reshape") else [found])
        if time.monotonic() > until:
            return


def _record_file(tf: Any, paths: list[str]) -> Any:
    """Write the files as records into one file that has lost its name already: nothing is left behind."""
    if not Path("/proc/self/fd").is_dir():
        raise CannotRun("this system has no /proc to read an unnamed file through", do="try it on Linux")
    with tempfile.TemporaryDirectory(prefix="fitdoctor-") as folder:
        place = os.path.join(folder, "records")
        with tf.io.TFRecordWriter(place) as writer:
            for path in paths:
                writer.write(_content(path))
        return open(place, "rb")


# --- Python loaders -----------------------------------------------------------------------------------


def _in_python(job: Job, workers: int) -> Comparison:
    before = _bytes_read()
    with _opened() as seen:
        count = sum(1 for _ in itertools.islice(_batches(job.given.get("x")), BATCHES))
    read = _bytes_read() - before
    paths = _limited(seen)
    if not paths or count == 0:
        if read < _LITTLE * max(1, count):
            raise CannotRun("no file is read for a batch")
        raise CannotRun("its files are read past Python, by a library of its own", do="try shards in the script")
    if len(set(seen)) < len(seen) / 2:
        raise CannotRun("it opens the same few files again and again, not many small ones")
    if read < _WHOLE * sum(_size(path) for path in seen):
        raise CannotRun("it reads parts of its files, not whole ones")
    per_batch = max(1, round(len(seen) / count))
    joint = _Joint(paths)

    def one_by_one() -> float:
        return _timed((functools.partial(_content, path) for path in itertools.cycle(paths)), per_batch)

    def together() -> float:
        return _timed((joint.next for _ in itertools.count()), per_batch)

    return Comparison("one record file", together, one_by_one, _detail(paths, per_batch, workers))


def _size(path: str) -> int:
    try:
        return real.stat(path).st_size
    except OSError:
        return 0


def _content(path: str) -> bytes:
    """Read a file as cheaply as Python can, past all that a capped run puts around `open`."""
    handle = real.open_fd(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(handle, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    finally:
        real.close(handle)


def _batches(data: Any) -> Iterator[Any]:
    """Make batches here and now, in this thread."""
    if hasattr(data, "num_batches"):
        yield from (data[place] for place in range(data.num_batches or BATCHES))
        return
    generator = data.generator
    state = generator.get_state() if generator is not None else None
    try:
        yield from data
    finally:
        if generator is not None:
            generator.set_state(state)


@contextlib.contextmanager
def _opened() -> Iterator[list[str]]:
    """Note which files Python opens to read them, by any thread, for a while."""
    seen: list[str] = []
    original = builtins.open

    def noting(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, (str, bytes, os.PathLike)) and not set(str(mode)) & set("wax+"):
            path = os.fsdecode(file)
            if not path.endswith(_NOT_DATA) and not path.startswith(("/proc/", "/sys/", "/dev/")):
                seen.append(path)
        return original(file, mode, *args, **kwargs)

    own = io.open
    builtins.open = noting
    io.open = noting
    try:
        yield seen
    finally:
        builtins.open = original
        io.open = own


def _bytes_read() -> int:
    with contextlib.suppress(OSError, ValueError, StopIteration):
        text = Path("/proc/self/io").read_text()
        return int(next(line for line in text.splitlines() if line.startswith("rchar")).split()[1])
    return 0


class _Joint:
    """All files in one, read one after the other."""

    def __init__(self, paths: list[str]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the comparison
        self._sizes = [self._file.write(_content(path)) for path in paths]
        self._file.flush()
        self._number = self._place = 0

    def next(self) -> bytes:
        """Return the next file's content, as a record is read: it begins where the last one ended."""
        if self._number == len(self._sizes):
            self._number = self._place = 0
        found = os.pread(self._file.fileno(), self._sizes[self._number], self._place)
        self._place += len(found)
        self._number += 1
        return found


def _timed(readers: Iterator[Callable[[], bytes]], per_batch: int) -> float:
    """Read for a while and return nanoseconds per batch."""
    start = time.perf_counter_ns()
    count = 0
    while time.perf_counter_ns() - start < BLOCK_SECONDS * 1e9 / 2 or count == 0:
        for read in itertools.islice(readers, per_batch):
            read()
        count += 1
    return (time.perf_counter_ns() - start) / count

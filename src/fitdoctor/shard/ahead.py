"""Files read by several threads, ahead of whoever uses them, and handed over in order."""

from __future__ import annotations

import collections
import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from fitdoctor.shard.manifest import Entry
from fitdoctor.shard.source import Source, Unreadable

AHEAD_BYTES = 64 << 20
"""Bytes that may be read ahead."""
TASK_BYTES = 1 << 20
Read = tuple[Entry, "bytes | None"]
"""An entry with its checksum, and the content; or with what is wrong, and None."""


@contextlib.contextmanager
def reading_ahead(source: Source, entries: Sequence[Entry], jobs: int) -> Iterator[Iterator[Read]]:
    """Read the entries in `jobs` threads: waiting for a disk or a store needs no core."""
    with ThreadPoolExecutor(jobs, "fitdoctor-shard") as pool:
        try:
            yield _in_order(pool, source, entries, jobs)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _in_order(pool: ThreadPoolExecutor, source: Source, entries: Sequence[Entry], jobs: int) -> Iterator[Read]:
    waiting: collections.deque[tuple[Future[list[Read]], int]] = collections.deque()
    tasks = _tasks(entries, source.at_once)
    task = next(tasks, None)
    ahead = 0
    while task is not None or waiting:
        while task is not None and (not waiting or (ahead < AHEAD_BYTES and len(waiting) < 4 * jobs)):
            size = sum(each.found.size for each in task)
            waiting.append((pool.submit(_read, source, task), size))
            ahead += size
            task = next(tasks, None)
        future, size = waiting.popleft()
        yield from future.result()
        ahead -= size


def _tasks(entries: Sequence[Entry], at_once: int) -> Iterator[list[Entry]]:
    task: list[Entry] = []
    size = 0
    for entry in entries:
        task.append(entry)
        size += entry.found.size
        if len(task) >= at_once or size >= TASK_BYTES:
            yield task
            task, size = [], 0
    if task:
        yield task


def _read(source: Source, entries: list[Entry]) -> list[Read]:
    return [_one(source, entry) for entry in entries]


def _one(source: Source, entry: Entry) -> Read:
    if entry.bad is not None:
        return entry, None
    try:
        content = source.read(entry.found)
    except Unreadable as error:
        return replace(entry, bad=str(error)), None
    return replace(entry, sha256=hashlib.sha256(content).hexdigest()), content

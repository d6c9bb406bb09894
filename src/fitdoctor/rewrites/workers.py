"""A Python-side loader with the workers that make it fastest: threads if it waits, processes if it computes.

With consent, batches of a `PyDataset` that are the same in every epoch are kept in memory on top of that.
Every candidate is measured in turns with the loader as it is, and its batches are compared with the original's.  One
that draws random numbers draws others with workers, so it is left alone unless the caller consents.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fitdoctor import units
from fitdoctor.errors import CannotRun, UsageError
from fitdoctor.model import Interval
from fitdoctor.rewrites.kept_batches import kept_in_memory
from fitdoctor.rewrites.loader_batches import Compared, block, compare, identity, prepared
from fitdoctor.rewrites.loader_copies import in_threads, is_dataloader, is_pydataset, with_processes
from fitdoctor.rewrites.optimized import Optimized
from fitdoctor.rewrites.processes import in_processes
from fitdoctor.rewrites.randomness import unchanged, watched

BUDGET = 30.0
COUNTS = (2, 4, 8)
FEWEST_TURNS, MOST_TURNS = 4, 8
TRY_SECONDS = 20.0
"""A process that has made no batch after so long in a trial is blocked, or too slow to be a gain."""
KEEPS = "batches kept in memory after the first epoch"
KEEPING = 0.4
"""Share of the budget for trying that: two epochs have to be read to their end."""
_CLEARLY = 0.9
"""More workers, or processes instead of threads, are worth their memory if a batch takes less than this of the time."""
_WAITS = 0.5
"""A batch that spends less than this of its time on the CPU waits for something."""


@dataclass(frozen=True)
class _Candidate:
    name: str
    make: Callable[[], tuple[Any, Callable[[], None]]]
    """Returns the loader and what ends its workers."""


@dataclass(frozen=True)
class _Tried:
    candidate: _Candidate
    ratio: Interval
    compared: Compared


def optimize_loader(data: Any, *, unsafe: bool = False, budget: float = BUDGET) -> Optimized:
    """Return a `PyDataset` or `DataLoader` with better workers, or as it is; takes about `budget` seconds.

    `unsafe`: also where random numbers are drawn by others than before, and with forked processes beside TensorFlow.
    """
    if not is_pydataset(data) and not is_dataloader(data):
        raise UsageError(
            f"expected a keras.utils.PyDataset or a torch DataLoader, got {type(data).__name__}",
            do="hand over the loader that is given to fit",
        )
    keeps = is_pydataset(data)
    deadline = time.monotonic() + budget
    workers_until = deadline - (KEEPING * budget if keeps and unsafe else 0.0)
    with unchanged(data):
        batch = _Batch.of(data)
    dropped: list[tuple[str, str]] = []
    tried: list[_Tried] = []
    candidates = list(_candidates(data, batch))
    for place, candidate in enumerate(candidates):
        try:
            _refuse(candidate, batch, unsafe=unsafe)
            seconds = (workers_until - time.monotonic()) / (len(candidates) - place)
            found = _try(data, candidate, seconds, values=not batch.draws)
        except CannotRun as error:
            dropped.append((candidate.name, error.problem))
            continue
        reason = _reason(found)
        if reason:
            dropped.append((candidate.name, reason))
        else:
            tried.append(found)
    best = _best(tried)
    dropped += [(each.candidate.name, f"{_took(each)}; another is better") for each in tried if each is not best]
    kept = [best] if best is not None else []
    if keeps:
        try:
            kept.append(_kept_batches(data, best, deadline, unsafe=unsafe))
        except CannotRun as error:
            dropped.append((KEEPS, error.problem))
    dataset = kept[-1].candidate.make()[0] if kept else data
    names = tuple(each.candidate.name for each in kept)
    return Optimized(dataset, _explain(batch, kept, dropped), names, tuple(dropped))


@dataclass(frozen=True)
class _Batch:
    """What making one batch, alone, tells."""

    wall_s: float
    cpu_s: float
    draws: str
    """What says that it draws random numbers; empty where nothing does."""

    @classmethod
    def of(cls, data: Any) -> _Batch:
        make = _maker(data)
        with watched(data.dataset if is_dataloader(data) else data) as used:
            first = make()
            start, start_cpu = time.perf_counter(), time.thread_time()
            second = make()
            wall, cpu = time.perf_counter() - start, time.thread_time() - start_cpu
            draws = ", ".join(used())
        if identity(first) != identity(second):
            draws = draws or "the same batch differs when it is made again"
        return cls(wall, min(cpu, wall), draws)


def _maker(data: Any) -> Callable[[], Any]:
    """Return what makes the same batch again and again, on this thread."""
    if is_pydataset(data):
        return lambda: data[0]
    if not hasattr(data.dataset, "__getitem__"):
        return lambda: next(iter(with_processes(data, 0, keep=False)))
    places = next(iter(data._index_sampler))
    rows = places if isinstance(places, (list, tuple)) else [places]
    return lambda: [data.dataset[row] for row in rows]


def _candidates(data: Any, batch: _Batch) -> Iterator[_Candidate]:
    """Yield what could be faster, the likeliest first."""
    if is_dataloader(data):
        counts = [data.num_workers] if data.num_workers and not data.persistent_workers else []
        counts += [count for count in COUNTS if count != data.num_workers]
        for count in counts:
            yield _Candidate(f"num_workers={count}, persistent_workers=True", functools.partial(_kept, data, count))
        return
    threads = [
        _Candidate(f"workers={count}", functools.partial(_threaded, data, count))
        for count in COUNTS
        if count != data.workers or data.use_multiprocessing
    ]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = [
        _Candidate(f"{count} kept processes", functools.partial(_crewed, data, count))
        for count in sorted({2, min(max(2, cores), max(COUNTS))})
    ]
    if batch.cpu_s < _WAITS * batch.wall_s:
        yield from threads
        return
    yield from processes
    # NumPy gives the GIL back in long operations: threads may do for those, too.
    yield threads[0]


def _kept(data: Any, count: int) -> tuple[Any, Callable[[], None]]:
    loader = with_processes(data, count, keep=True)

    def end() -> None:
        iterator, loader._iterator = loader._iterator, None
        if iterator is not None:
            iterator._shutdown_workers()

    return loader, end


def _threaded(data: Any, count: int) -> tuple[Any, Callable[[], None]]:
    return in_threads(data, count), lambda: None


def _crewed(data: Any, count: int) -> tuple[Any, Callable[[], None]]:
    dataset, crew = in_processes(data, count)
    return dataset, crew.stop


def _kept_batches(data: Any, best: _Tried | None, deadline: float, *, unsafe: bool) -> _Tried:
    """Keep batches on top of the best workers; two epochs are compared to their end, or it is not accepted."""
    if not unsafe:
        raise CannotRun("that Python makes the same batch every time cannot be proved; unsafe=True allows it")
    candidate = _Candidate(KEEPS, functools.partial(_remembered, data, best))
    with unchanged(data):
        found = _try(data, candidate, max(1.0, deadline - time.monotonic()), values=True, comparing=0.8)
    if reason := _reason(found):
        raise CannotRun(reason)
    if not found.compared.whole:
        raise CannotRun("two epochs could not be compared to their end in the time given; a larger budget would do")
    if best is not None and found.ratio.mid >= _CLEARLY * best.ratio.mid:
        raise CannotRun(f"{_took(found)}: not clearly less than without")
    return found


def _remembered(data: Any, best: _Tried | None) -> tuple[Any, Callable[[], None]]:
    made_by, end = best.candidate.make() if best is not None else (data, lambda: None)
    try:
        return kept_in_memory(data, made_by), end
    except CannotRun:
        end()
        raise


def _refuse(candidate: _Candidate, batch: _Batch, *, unsafe: bool) -> None:
    if unsafe:
        return
    if batch.draws:
        raise CannotRun(f"it draws random numbers ({batch.draws}): workers draw others; unsafe=True allows it")
    if "kept processes" in candidate.name and sys.modules["keras"].config.backend() == "tensorflow":
        raise CannotRun("a process forked beside TensorFlow can block for ever; unsafe=True allows it")


def _try(data: Any, candidate: _Candidate, seconds: float, *, values: bool, comparing: float = 1 / 3) -> _Tried:
    if seconds <= 0:
        raise CannotRun("the budget was used up before it")
    until = time.monotonic() + seconds
    loader, end = candidate.make()
    crew = getattr(loader, "_crew", None)
    if crew is not None:
        crew.limit = TRY_SECONDS
    try:
        compared = compare(data, loader, comparing * seconds, values=values)
        with unchanged(data):
            ratio = in_turns(lambda: block(data), lambda: block(loader, prepared(loader)), until)
    finally:
        end()
    return _Tried(candidate, ratio, compared)


def in_turns(one: Callable[[], float], other: Callable[[], float], until: float) -> Interval:
    """Return the time of `other` over that of `one`, measured in turns: least, median and most of the pairs."""
    ratios: list[float] = []
    while len(ratios) < MOST_TURNS:
        if len(ratios) % 2:
            before, after = one(), other()
        else:
            after, before = other(), one()
        ratios.append(after / before)
        if len(ratios) >= FEWEST_TURNS and time.monotonic() >= until:
            break
    return Interval(min(ratios), statistics.median(ratios), max(ratios))


def _reason(found: _Tried) -> str:
    """Say why a candidate is dropped; nothing: it is faster, and equal."""
    if not found.compared.equal:
        return "its batches are not those of the original"
    if found.ratio.high >= 1:
        return _took(found)
    return ""


def _took(found: _Tried) -> str:
    return f"a batch took {units.percent_range(found.ratio)} of the time"


def _best(tried: list[_Tried]) -> _Tried | None:
    """Return the fastest; of those that are about as fast, the one with the fewest workers."""
    best: _Tried | None = None
    for each in sorted(tried, key=lambda each: (_workers(each.candidate), each.ratio.mid)):
        if best is None or each.ratio.mid < _CLEARLY * best.ratio.mid:
            best = each
    return best


def _workers(candidate: _Candidate) -> int:
    return int("".join(letter for letter in candidate.name.split(",")[0] if letter.isdigit()))


def _explain(batch: _Batch, kept: list[_Tried], dropped: list[tuple[str, str]]) -> str:
    lines = [f"making a batch takes {units.duration(batch.wall_s)}, {units.duration(batch.cpu_s)} of it on the CPU"]
    for each in kept:
        compared = each.compared
        extent = "two epochs" if compared.whole else f"the first {compared.batches} batches"
        same = "made of the same" if batch.draws else "the same, bit for bit and in order"
        lines.append(f"kept: {each.candidate.name}: {_took(each)}; {extent} were compared and are {same}")
    if not kept:
        lines.append("nothing was kept: the loader is returned as it is")
    lines += [f"dropped: {name}: {reason}" for name, reason in dropped]
    return "\n".join(lines)

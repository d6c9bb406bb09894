"""What is the same in every epoch, kept: in memory where it fits, in a folder of the caller's where it does not.

Maps that follow a shuffle are made before it, and kept there: a shuffle does not look at what it shuffles, so the same
elements come in the same order.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path as Folder
from typing import Any

from fitdoctor import units
from fitdoctor.errors import CannotRun
from fitdoctor.probes.cgroup import free_memory
from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.probes.input_tf_built import built
from fitdoctor.rewrites import purity
from fitdoctor.rewrites.candidates import ANY_ORDER, IN_ORDER, Candidate, Refusal, Seen
from fitdoctor.rewrites.changes.parallel_map import name_of_function
from fitdoctor.rewrites.datasets import Path, at, fresh, on_top, paths, replaced
from fitdoctor.rewrites.stages import every, inputs

RULE = "repeated-preprocessing"
WORK = frozenset({"Map", "ParallelMap", "Interleave", "ParallelInterleave", "FlatMap", "Filter", "Scan"})
MAPS = frozenset({"Map", "ParallelMap"})
BATCHES = frozenset({"Batch", "ParallelBatch", "PaddedBatch"})
SPARE = 1.2
"""The cache must fit this many times into the memory that is free."""
FILL_SECONDS = 1.5
MOST_BYTES = 256 << 20
LOOKED_AT = 4
"""Elements whose size is measured."""


def candidates(dataset: Any, seen: Seen) -> Iterator[Candidate | Refusal]:
    """Offer it at the last place whose elements are the same in every epoch."""
    if any(name_of(stage) == "Cache" for stage in every(dataset)):
        yield Refusal(RULE, "the pipeline has a cache")
        return
    found = False
    for cut, moves in ((_cut, False), (_behind_shuffle, True)):
        path, loose = cut(dataset, python=False), cut(dataset, python=True)
        for place, safety in ((path, "same"), (loose if loose != path else None, "may change")):
            if place is not None:
                found = True
                yield from _candidate(dataset, place, safety, seen, moves=moves)
    if not found:
        yield Refusal(RULE, "nothing is done to the elements before they are repeated or made random")


def _cut(dataset: Any, *, python: bool) -> Path | None:
    """Return where the outermost stage is that works and whose elements are the same in every epoch."""
    for path, stage in paths(dataset):
        works = any(name_of(each) in WORK for each in every(stage))
        if name_of(stage) in WORK | BATCHES and works and purity.repeats(stage, python=python):
            return path
    return None


def _behind_shuffle(dataset: Any, *, python: bool) -> Path | None:
    """Return where the outermost map is that could as well be made before the shuffle that it follows."""
    for path, stage in paths(dataset):
        maps, shuffle = _down_to_shuffle(stage)
        if not maps or shuffle is None:
            continue
        steady = all(purity.steady(each, python=python) for each in maps)
        if steady and purity.repeats(inputs(shuffle)[0], python=python):
            return path
    return None


def _down_to_shuffle(stage: Any) -> tuple[list[Any], Any]:
    """Return the maps from here down to a shuffle, outermost first, and the shuffle; None where there is none."""
    maps = []
    while name_of(stage) in MAPS:
        maps.append(stage)
        stage = inputs(stage)[0]
    return maps, stage if name_of(stage) == "Shuffle" else None


def _kept(dataset: Any, path: Path, *, moves: bool) -> tuple[Any, Callable[[Any], Any]]:
    """Return the stage whose elements are kept, and what puts the rest back on top of it."""
    stage = at(dataset, path)
    if not moves:
        return stage, lambda kept: kept
    maps, shuffle = _down_to_shuffle(stage)
    below = inputs(shuffle)[0]
    for each in reversed(maps):
        below = on_top(each, [below])
    return below, lambda kept: on_top(shuffle, [kept])


def _candidate(dataset: Any, path: Path, safety: Any, seen: Seen, *, moves: bool) -> Iterator[Candidate | Refusal]:
    stage = at(dataset, path)
    above = [name_of(at(dataset, path[:length])) for length in range(len(path))]
    cardinality = int(stage.cardinality())
    if cardinality == -1:
        yield Refusal(RULE, "there is no end to the elements")
        return
    if {"Take", "TakeWhile", "Shard", "Skip"} & set(above):
        yield Refusal(RULE, "the elements are not always read to their end: the cache would never be complete")
        return
    # Where Python may do more than compute, elements are not asked for before somebody consents.
    size = element_bytes(_kept(fresh(dataset), path, moves=moves)[0]) if safety == "same" else None
    need = None if size is None or cardinality < 0 else int(size * cardinality)
    fits = need is None or need * SPARE <= free_memory()
    if not fits and seen.cache_dir is None:
        yield Refusal(
            RULE, f"a cache takes {units.size(need or 0)}, {units.size(free_memory())} are free; give it a cache_dir"
        )
        return
    folder = None if fits else seen.cache_dir
    where = "kept on the disk after the first epoch" if folder else "kept in memory after the first epoch"
    cache = ".cache(filename)" if folder else ".cache()"
    yield Candidate(
        rule=RULE,
        path=path,
        op=name_of(stage),
        site=built(stage),
        settings=f"{where}, and shuffled behind it" if moves else where,
        code=f".map({name_of_function(stage)}){cache}.shuffle(...)" if moves else cache,
        promise=ANY_ORDER if purity.reorders(dataset) else IN_ORDER,
        safety=safety,
        apply=functools.partial(cached, path=path, folder=folder, moves=moves),
        sample=functools.partial(sampled, path=path, moves=moves),
        hides=moves,
        detail=(
            ("after", name_of(stage)),
            ("elements", cardinality if cardinality >= 0 else None),
            ("element_bytes", size),
        ),
    )


def cached(dataset: Any, *, path: Path, folder: str | None, moves: bool = False) -> Any:
    """Build a pipeline again with a cache at a place; `moves`: the shuffle below it comes behind it."""
    dataset = fresh(dataset)
    stage, rest = _kept(dataset, path, moves=moves)
    # A folder of its own: a file cache does not notice that the code has changed since it was written.
    name = str(Folder(tempfile.mkdtemp(prefix="fitdoctor-", dir=folder)) / "cache") if folder else ""
    return replaced(dataset, path, rest(stage.cache(name)))


def sampled(dataset: Any, *, path: Path, moves: bool = False) -> Any:
    """Build a pipeline again on as many kept elements as time and memory allow, over and over."""
    dataset = fresh(dataset)
    stage, rest = _kept(dataset, path, moves=moves)
    most = max(1, MOST_BYTES // element_bytes(stage))
    start = time.monotonic()
    count = 0
    for _ in stage.take(most):
        count += 1
        if time.monotonic() - start > FILL_SECONDS / 2:
            break
    kept = stage.take(count).cache()
    for _ in kept:
        pass
    return replaced(dataset, path, rest(kept.repeat()))


def element_bytes(stage: Any) -> int:
    """Return how large an element is, by the first few."""
    import numpy as np
    import tensorflow as tf

    seen = sizes = 0
    for element in stage.take(LOOKED_AT):
        seen += 1
        for leaf in tf.nest.flatten(element, expand_composites=True):
            values = np.asarray(leaf)
            sizes += sum(len(each) for each in values.ravel()) if values.dtype == object else values.nbytes
    if seen == 0:
        raise CannotRun("the pipeline gave no element", do="try it with data that can be read twice")
    return max(1, sizes // seen)

"""What is the same in every epoch, kept: in memory where it fits, in a folder of the caller's where it does not."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path as Folder
from typing import Any

from fitdoctor import units
from fitdoctor.errors import CannotRun
from fitdoctor.probes.cgroup import free_memory
from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.probes.input_tf_built import built
from fitdoctor.rewrites import purity
from fitdoctor.rewrites.candidates import ANY_ORDER, IN_ORDER, Candidate, Refusal, Seen
from fitdoctor.rewrites.datasets import Path, at, fresh, paths, replaced
from fitdoctor.rewrites.stages import every

RULE = "repeated-preprocessing"
WORK = frozenset({"Map", "ParallelMap", "Interleave", "ParallelInterleave", "FlatMap", "Filter", "Scan"})
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
    path = _cut(dataset, python=False)
    loose = _cut(dataset, python=True)
    if path is None and loose is None:
        yield Refusal(RULE, "nothing is done to the elements before they are shuffled, repeated or made random")
        return
    for place, safety in ((path, "same"), (loose if loose != path else None, "may change")):
        if place is not None:
            yield from _candidate(dataset, place, safety, seen)


def _cut(dataset: Any, *, python: bool) -> Path | None:
    """Return where the outermost stage is that works and whose elements are the same in every epoch."""
    for path, stage in paths(dataset):
        works = any(name_of(each) in WORK for each in every(stage))
        if name_of(stage) in WORK | BATCHES and works and purity.repeats(stage, python=python):
            return path
    return None


def _candidate(dataset: Any, path: Path, safety: Any, seen: Seen) -> Iterator[Candidate | Refusal]:
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
    size = element_bytes(stage) if safety == "same" else None
    need = None if size is None or cardinality < 0 else int(size * cardinality)
    fits = need is None or need * SPARE <= free_memory()
    if not fits and seen.cache_dir is None:
        yield Refusal(
            RULE, f"a cache takes {units.size(need or 0)}, {units.size(free_memory())} are free; give it a cache_dir"
        )
        return
    folder = None if fits else seen.cache_dir
    yield Candidate(
        rule=RULE,
        path=path,
        op=name_of(stage),
        site=built(stage),
        settings="kept on the disk after the first epoch" if folder else "kept in memory after the first epoch",
        code=".cache(filename)" if folder else ".cache()",
        promise=ANY_ORDER if purity.reorders(dataset) else IN_ORDER,
        safety=safety,
        apply=functools.partial(cached, path=path, folder=folder),
        sample=functools.partial(sampled, path=path),
        detail=(
            ("after", name_of(stage)),
            ("elements", cardinality if cardinality >= 0 else None),
            ("element_bytes", size),
        ),
    )


def cached(dataset: Any, *, path: Path, folder: str | None) -> Any:
    """Build a pipeline again with a cache at a place."""
    dataset = fresh(dataset)
    stage = at(dataset, path)
    # A folder of its own: a file cache does not notice that the code has changed since it was written.
    name = str(Folder(tempfile.mkdtemp(prefix="fitdoctor-", dir=folder)) / "cache") if folder else ""
    return replaced(dataset, path, stage.cache(name))


def sampled(dataset: Any, *, path: Path) -> Any:
    """Build a pipeline again on as many kept elements as time and memory allow, over and over."""
    dataset = fresh(dataset)
    stage = at(dataset, path)
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
    return replaced(dataset, path, kept.repeat())


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

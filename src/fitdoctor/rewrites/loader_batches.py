"""Batches of a Python-side loader: how they are pulled, how fast they come, and whether two loaders give the same."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.rewrites.loader_copies import PREFETCH
from fitdoctor.rewrites.randomness import unchanged

BLOCK_SECONDS = 0.25
_FEWEST = 3


@contextlib.contextmanager
def epoch(data: Any) -> Iterator[Iterator[Any]]:
    """Begin an epoch as Keras does, in the loader's own order, and end its workers afterwards."""
    from keras.src.trainers.data_adapters import get_data_adapter

    adapter = get_data_adapter(x=data, shuffle=False)
    batches = iter(adapter.get_numpy_iterator())
    try:
        yield batches
    finally:
        enqueuer = getattr(adapter, "enqueuer", None)
        if enqueuer is not None:
            enqueuer.stop()


def block(data: Any, skip: int = 0) -> float:
    """Pull batches for a while, begun anew where they end; return nanoseconds per batch.

    The first ones do not count where `skip` says so: workers that were kept had prepared them before.
    """
    count, spent, before = 0, 0, -1
    while spent < BLOCK_SECONDS * 1e9 or count < _FEWEST:
        with epoch(data) as batches:
            start = time.perf_counter_ns()
            for _ in batches:
                if skip:
                    skip -= 1
                    start = time.perf_counter_ns()
                    continue
                count += 1
                if time.perf_counter_ns() - start + spent >= BLOCK_SECONDS * 1e9 and count >= _FEWEST:
                    break
            spent += time.perf_counter_ns() - start
        if count == 0 and skip == before:
            raise CannotRun("it gave no batch when it was begun anew", do="try it with data that can be read twice")
        before = skip
    return spent / count


def prepared(data: Any) -> int:
    """Return how many batches the workers of a `DataLoader` have ready when they were left alone for a while."""
    workers = int(getattr(data, "num_workers", 0))
    return workers * int(getattr(data, "prefetch_factor", None) or PREFETCH) if workers else 0


@dataclass(frozen=True)
class Compared:
    """What comparing two loaders gave."""

    equal: bool
    batches: int
    whole: bool
    """Both epochs to their end.  Where not, the last batch was compared too, if it can be asked for by its number."""


def compare(one: Any, other: Any, seconds: float, *, values: bool = True) -> Compared:
    """Compare two epochs of two loaders, bit for bit and in order, as far as the time goes.

    `values=False`: only what they are made of, for loaders that draw random numbers.
    """
    with unchanged(one):
        first = list(_digests(one, seconds / 2, values))
    with unchanged(one):
        second = list(_digests(other, seconds / 2, values))
    ended = [bool(found) and found[-1] is None for found in (first, second)]
    whole = all(ended)
    if not whole:
        # One that ended early is compared as far as the other came.
        shorter = min(len(first), len(second))
        first, second = first[:shorter], second[:shorter]
    batches = sum(each is not None for each in first)
    equal = first == second and batches > 0 and (whole or _last(one, values) == _last(other, values))
    return Compared(equal, batches, whole)


def _last(data: Any, values: bool) -> tuple[Any, ...] | None:
    """Return what identifies the last batch, often a short one, where it can be asked for by its number."""
    count = getattr(data, "num_batches", None)
    return identity(data[count - 1], values=values) if count else None


def _digests(data: Any, seconds: float, values: bool) -> Iterator[tuple[Any, ...] | None]:
    """Yield what identifies each batch of two epochs; None when they are through."""
    until = time.monotonic() + seconds
    for number in range(2):
        with epoch(data) as batches:
            for batch in batches:
                yield (number, *identity(batch, values=values))
                if time.monotonic() > until:
                    return
    yield None


def identity(batch: Any, *, values: bool = True) -> tuple[Any, ...]:
    """Return what is equal for equal batches only."""
    import numpy as np
    from keras import tree

    leaves = [None if leaf is None else np.asarray(leaf) for leaf in tree.flatten(batch)]
    return tuple(
        None
        if leaf is None
        else (leaf.dtype.str, leaf.shape, hashlib.blake2b(np.ascontiguousarray(leaf).tobytes()).digest())
        if values
        else (leaf.dtype.str, leaf.shape)
        for leaf in leaves
    )

"""A `PyDataset` whose batches are made once and kept in memory: each one as it was in the first epoch.

Only where nothing tells the dataset that an epoch begins or ends, where making a batch draws no random number and
leaves the dataset's attributes as they are, and where all batches fit into the memory that is free.  That Python gives
the same batch every time can be seen, not proved: the caller consents.
"""

from __future__ import annotations

import collections
import functools
from typing import Any

from fitdoctor import units
from fitdoctor.errors import CannotRun
from fitdoctor.probes.cgroup import free_memory
from fitdoctor.rewrites.loader_batches import identity
from fitdoctor.rewrites.randomness import watched

SPARE = 1.2
"""All batches must fit this many times into the memory that is free."""
MOST_HELD = 1000
"""Items of a container that are looked at."""


def kept_in_memory(data: Any, made_by: Any) -> Any:
    """Return the dataset with its batches kept; raises where that could give others.

    `made_by`: the same dataset, perhaps with other workers, which makes them.
    """
    import keras

    for hook in ("on_epoch_begin", "on_epoch_end"):
        if getattr(type(data), hook) is not getattr(keras.utils.PyDataset, hook):
            raise CannotRun("the dataset changes from epoch to epoch", do="keep in the script what stays the same")
    count = data.num_batches
    if not count:
        raise CannotRun("there is no end to its batches")
    size = _looked_at(data, int(count))
    if SPARE * size * count > free_memory():
        raise CannotRun(f"its batches take {units.size(size * count)}, {units.size(free_memory())} are free")
    return _class()(made_by)


def _looked_at(data: Any, count: int) -> int:
    """Make a few batches twice; return the bytes of the largest."""
    places = sorted({0, count // 2, count - 1})
    with watched(data) as used:
        first = [data[place] for place in places]
        before = _held(data)
        second = [data[place] for place in places]
        drawn = used()
    if drawn:
        raise CannotRun(f"it draws random numbers ({', '.join(drawn)}): each epoch has others")
    if _held(data) != before:
        raise CannotRun("making a batch changes the dataset: the next epoch may give others")
    if [identity(batch) for batch in first] != [identity(batch) for batch in second]:
        raise CannotRun("the same batch differs when it is made again")
    return max(_bytes(batch) for batch in first)


def _held(data: Any) -> dict[str, Any]:
    """Tell which objects a dataset holds, and what its own containers hold: as far as they are short."""
    found: dict[str, Any] = {}
    for name, value in vars(data).items():
        held = tuple(value.items()) if isinstance(value, dict) else value
        short = isinstance(held, (tuple, list, set, collections.deque)) and len(held) <= MOST_HELD
        found[name] = (id(value), [repr(each)[:MOST_HELD] for each in held] if short else None)
    return found


def _bytes(batch: Any) -> int:
    import numpy as np
    from keras import tree

    return sum(np.asarray(leaf).nbytes for leaf in tree.flatten(batch) if leaf is not None)


@functools.cache
def _class() -> Any:
    """Build the class on first use: only then is Keras needed."""
    import keras
    import numpy as np
    from keras import tree

    def copied(batch: Any) -> Any:
        """Hand out arrays of their own: what is kept must not be changed by who gets it."""
        return tree.map_structure(one, batch)

    def one(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            return leaf.copy()
        return leaf.clone() if hasattr(leaf, "clone") else leaf

    class KeptBatches(keras.utils.PyDataset):  # type: ignore[misc]
        """A dataset that makes each batch once."""

        def __init__(self, inner: Any) -> None:
            super().__init__(
                workers=int(inner.workers), use_multiprocessing=False, max_queue_size=int(inner.max_queue_size)
            )
            self._inner = inner
            self._made: dict[int, Any] = {}

        def __getitem__(self, index: int) -> Any:
            # Two threads never ask for the same batch of an epoch.
            if index not in self._made:
                self._made[index] = self._inner[index]
            return copied(self._made[index])

        @property
        def num_batches(self) -> Any:
            """As many as the dataset has."""
            return self._inner.num_batches

        def __len__(self) -> int:
            return len(self._inner)

        def __getattr__(self, name: str) -> Any:
            if name in ("_inner", "_made"):
                raise AttributeError(name)
            return getattr(self._inner, name)

    return KeptBatches

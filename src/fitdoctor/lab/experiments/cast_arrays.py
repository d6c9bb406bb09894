"""An epoch begun on the user's arrays, against one begun on arrays that are in Keras's precision already."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import Job, Offer
from fitdoctor.lab.loading import NextEpoch
from fitdoctor.lab.snapshot import free_memory

NAME = "arrays in Keras's precision"
TRAINS = False
OFFERS = True
LARGE_BYTES = 16 << 20
"""Smaller arrays are cast in less time than an epoch takes to begin."""


def worth(seen: Seen) -> float:
    """Weigh large arrays in another precision, in several epochs."""
    if seen.info.get("adapter") != "arrays" or int(seen.info.get("epochs") or 1) < 2:
        return 0.0
    floatx = str(seen.info.get("dtype") or "float32")
    cast = [each for each in seen.info.get("arrays") or () if _other_precision(str(each.get("dtype")), floatx)]
    return 1.0 if sum(int(each.get("bytes") or 0) for each in cast) >= LARGE_BYTES else 0.0


def _other_precision(dtype: str, floatx: str) -> bool:
    return dtype.startswith("float") and dtype != floatx


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Begin epochs on both kinds of arrays."""
    del seen
    import numpy as np
    from keras import tree

    floatx = sys.modules["keras"].config.floatx()
    given = {name: job.given[name] for name in ("x", "y", "sample_weight") if job.given.get(name) is not None}
    cast = [leaf for leaf in tree.flatten(given) if _is_cast(leaf, floatx)]
    if not cast:
        raise CannotRun("the arrays are in Keras's precision already: nothing of them is copied as a whole")
    need = sum(leaf.size for leaf in cast) * np.dtype(floatx).itemsize
    if 2 * need > free_memory():
        raise CannotRun("a copy of the arrays does not fit into memory", do="run it on a machine with more memory")
    same = tree.map_structure(lambda leaf: leaf.astype(floatx) if _is_cast(leaf, floatx) else leaf, given)
    detail = {
        "unit": "ns per epoch", "bytes": sum(leaf.nbytes for leaf in cast), "dtype": str(cast[0].dtype), "to": floatx,
    }  # fmt: skip
    job.offers.append(Offer("epoch begun on cast arrays", "large-array-copy", lambda whole: same))
    yield Comparison("epoch begun on cast arrays", _with(job, same).go, NextEpoch(job).go, detail)


def _is_cast(leaf: Any, floatx: str) -> bool:
    """Tell whether Keras casts this array as a whole whenever it begins to iterate over it."""
    import numpy as np

    return isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" and leaf.dtype.name != floatx


def _with(job: Job, given: dict[str, Any]) -> NextEpoch:
    own, job.given = job.given, {**job.given, **given}
    try:
        return NextEpoch(job)
    finally:
        job.given = own

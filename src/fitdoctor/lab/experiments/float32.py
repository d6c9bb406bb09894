"""The same model in single precision, where it computes in double."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.lab import twins
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job

NAME = "single precision"


def worth(seen: Seen) -> float:
    """Weigh models that compute in double precision."""
    return 5.0 if seen.info.get("dtype") == "float64" else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train a single-precision twin on the same batch, in turns with the model as it is."""
    with _precision("float32"):
        twin = _twin(job, seen.step_ns)

    def block() -> float:
        with _precision("float32"):
            return twin.block(BARE)

    yield Comparison("float32", block, lambda: job.block(BARE), {"own": str(job.model.dtype)})


def _twin(job: Job, step_ns: float) -> Job:
    import numpy as np
    from keras import tree

    def single(leaf: Any) -> Any:
        return leaf.astype("float32") if isinstance(leaf, np.ndarray) and leaf.dtype == np.float64 else leaf

    told = json.loads(json.dumps(twins.description(job)).replace('"float64"', '"float32"'))
    return twins.made(job, told, tree.map_structure(single, job.batch), step_ns=step_ns)


@contextlib.contextmanager
def _precision(name: str) -> Iterator[None]:
    """Make this the precision of everything that names none, for a while."""
    config = sys.modules["keras"].config
    own = config.floatx()
    config.set_floatx(name)
    try:
        yield
    finally:
        config.set_floatx(own)

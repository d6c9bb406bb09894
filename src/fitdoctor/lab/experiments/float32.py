"""The same model in single precision, where it computes in double."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job
from fitdoctor.lab.snapshot import free_memory

NAME = "single precision"
_STATE = 4
"""A trained copy takes about so many times its weights: gradients and the optimizer's own."""


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
    from keras import saving, tree

    need = _STATE * 4 * int(job.model.count_params())
    if need > free_memory():
        raise CannotRun("a second model does not fit into memory", do="run it on a machine with more memory")
    told = json.dumps(saving.serialize_keras_object(job.model))
    model = saving.deserialize_keras_object(json.loads(told.replace('"float64"', '"float32"')))
    if not getattr(model, "compiled", False):
        raise CannotRun("the model cannot be compiled from its own description", do="try it in the script")

    def single(leaf: Any) -> Any:
        return leaf.astype("float32") if isinstance(leaf, np.ndarray) and leaf.dtype == np.float64 else leaf

    model.make_train_function()
    twin = Job(model, job.backend, (), {}, step_ns=step_ns)
    twin.keep(tree.map_structure(single, job.batch))
    return twin


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

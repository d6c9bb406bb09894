"""Class numbers instead of one-hot targets, with the loss that takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import Job, Variant

NAME = "class numbers as targets"
_LOSSES = ("categorical_crossentropy", "CategoricalCrossentropy")


def worth(seen: Seen) -> float:
    """Weigh trainings whose loss takes one-hot targets."""
    return 0.6 * (1 - seen.shares["fetch"]) if seen.info.get("loss") in _LOSSES else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train with both kinds of targets, without metrics: they too would have to change."""
    del seen
    classes = _classes(job.batch)
    arrays = _is_array(job.given.get("y")) and job.given.get("sample_weight") is None
    own = Variant(metrics=False, callbacks=(), arrays=arrays)
    sparse = Variant(metrics=False, callbacks=(), arrays=arrays, sparse=True)
    detail = {"classes": classes, "arrays": arrays}
    yield Comparison("sparse targets", lambda: job.block(sparse), lambda: job.block(own), detail)
    if arrays and job.given.get("steps_per_epoch") is None:
        begun, sparsely = job.beginning(), job.beginning(sparse=True)
        yield Comparison("epoch begun on sparse targets", sparsely, begun, {"unit": "ns per epoch"})


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and getattr(value, "ndim", 0) >= 2


def _classes(batch: Any) -> int:
    """Return the number of classes of one-hot targets."""
    import numpy as np

    targets = batch[1] if isinstance(batch, (tuple, list)) and len(batch) > 1 else None
    if not isinstance(targets, np.ndarray) or targets.ndim < 2 or targets.shape[-1] < 2:
        raise CannotRun("the targets are not one array of rows")
    one_hot = ((targets == 0) | (targets == 1)).all() and (targets.sum(axis=-1) == 1).all()
    if not one_hot:
        raise CannotRun("the targets are not one-hot")
    return int(targets.shape[-1])

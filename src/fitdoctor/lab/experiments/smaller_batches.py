"""The same batch in a quarter of its bytes: what copying it to the device costs beside the step."""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant

NAME = "batches in a quarter of their bytes"
LARGE_BYTES = 1 << 20
"""Smaller batches are copied in the time that launching a copy takes."""


def worth(seen: Seen) -> float:
    """Weigh trainings on a device with memory of its own."""
    return 0.8 if "gpu" in (seen.info.get("weights_on") or ()) else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train on the batch as it is, in turns with its numbers in one byte each."""
    del seen
    from keras import tree

    x = job.batch[0] if isinstance(job.batch, tuple) else job.batch
    leaves = [leaf for leaf in tree.flatten(x) if leaf is not None]
    floats = [leaf for leaf in leaves if leaf.dtype.kind == "f"]
    if not floats:
        raise CannotRun("its inputs are no floating-point numbers: they cannot be made smaller")
    size = sum(leaf.nbytes for leaf in leaves)
    if size < LARGE_BYTES:
        raise CannotRun("a batch is too small for its copy to be felt")
    detail = {"bytes": size, "float_bytes": sum(leaf.nbytes for leaf in floats), "dtype": str(floats[0].dtype)}
    small = Variant(callbacks=(), small=True)
    yield Comparison("inputs in one byte", lambda: job.block(small), lambda: job.block(BARE), detail)

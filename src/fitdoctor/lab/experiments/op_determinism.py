"""The very step, and the very loader, without op determinism where it is on."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import FELT, Comparison, Seen
from fitdoctor.lab.job import BARE, Job
from fitdoctor.rewrites.pulling import LEAD_SECONDS, Puller

NAME = "op determinism off"


_WAITS = 0.5
"""A step that waits for so much of it is long for its input."""


def worth(seen: Seen) -> float:
    """Weigh jobs that turned it on; before anything else where they wait for input, which it may let take turns."""
    if not seen.info.get("deterministic") or seen.info.get("backend") != "tensorflow":
        return 0.0
    return 50.0 if seen.shares.get("fetch", 0.0) > FELT else 2.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train in turns with a step that was made without it; pull batches in turns with a loader that was."""
    if sys.modules["tensorflow.python.framework.config"].is_op_determinism_enabled() is False:
        raise CannotRun("op determinism is off")
    both = [_step(job, seen.step_ns), *_loader(job, seen)]
    yield from reversed(both) if seen.shares.get("fetch", 0.0) > _WAITS else both


def _step(job: Job, step_ns: float) -> Comparison:
    other = _made_without(job, step_ns)

    def without() -> float:
        own = job.model.train_function
        try:
            with _off():
                return other.block(BARE)
        finally:
            job.model.train_function = own

    return Comparison("op determinism off", without, lambda: job.block(BARE))


def _loader(job: Job, seen: Seen) -> Iterator[Comparison]:
    if job.given.get("x") is None or seen.info.get("adapter") != "tf.data":
        return
    # What a pipeline may do at once is decided when the first iterator over it is made, and kept with the dataset: so
    # each gets an end of its own, which changes nothing.
    on = Puller(job.passes(job.given["x"].take(-1)))
    with _off():
        off = Puller(job.passes(job.given["x"].take(-1)))

    def pull() -> float:
        with _off():
            return off.block(lead=LEAD_SECONDS)

    yield Comparison(
        "loader without op determinism", pull, lambda: on.block(lead=LEAD_SECONDS), {"unit": "ns per batch"}
    )


def _made_without(job: Job, step_ns: float) -> Job:
    """Return the same job with a train function of its own: which kernels run is decided when it first does."""
    own = job.model.train_function
    try:
        job.model.make_train_function(force=True)
        other = Job(job.model, job.backend, (), job.given, step_ns=step_ns)
    finally:
        job.model.train_function = own
    other.keep(job.batch)
    return other


@contextlib.contextmanager
def _off() -> Iterator[None]:
    """Turn it off, for a while."""
    config = sys.modules["tensorflow.python.framework.config"]
    config.disable_op_determinism()
    try:
        yield
    finally:
        config.enable_op_determinism()

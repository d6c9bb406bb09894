"""A callback that does nothing: whether its mere presence changes how Keras runs the steps."""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant

NAME = "a callback that does nothing"
_SHORT_NS = 5e6
_FELT = 0.005
"""A smaller share of the step that could pass beside it nobody can tell from nothing."""
_QUIET = ("0", "2")


def worth(seen: Seen) -> float:
    """Weigh backends where Keras runs callbacks beside the steps: those that must not, and very short steps."""
    info = seen.info
    if not info.get("async_possible"):
        return 0.0
    if info.get("async_callbacks") is False:
        beside = sum(seen.shares.get(name, 0.0) for name in ("fetch", "transfer", "callbacks", "loop"))
        return 0.1 if min(beside, seen.shares.get("sync", 0.0)) > _FELT else 0.0
    # A progress bar would then be drawn between the steps.
    return 0.1 if seen.step_ns < _SHORT_NS and info.get("verbose") in _QUIET else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train with it and without any."""
    del seen
    watched = Variant(callbacks=(), watched=True)
    yield Comparison(NAME, lambda: job.block(watched), lambda: job.block(BARE))

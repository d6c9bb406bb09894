"""How a loader written in Python makes a batch: computing, holding the GIL, waiting, in which lines; its workers."""

from __future__ import annotations

from dataclasses import dataclass

from fitdoctor.facts.host_use import HostUse
from fitdoctor.facts.loader import HotLine, Loader
from fitdoctor.model import Interval


@dataclass(frozen=True, slots=True)
class BatchMaking:
    """What `fitdoctor input` tells of it; None where it was not seen or does not exist."""

    batch: Interval | None
    """Seconds that one thread takes for a batch."""
    cpu: Interval | None
    waiting: Interval | None
    alone: bool
    """Measured by the lab, beside nothing else; else in the run, beside the step."""
    gil_held: float | None
    """Share of the steps' time in which somebody held the GIL."""
    gil_training: float | None
    """Share in which the training thread did; it makes the batches too where there are no workers."""
    lines: tuple[HotLine, ...]
    ready: float | None
    """Batches that lay ready when the next was asked for, on average."""
    late: float | None
    """Share of the batches that were not ready when they were asked for."""
    out_of_order: float | None
    """Share of those for which a later one was ready."""
    start_s: float | None
    """From the start of workers to their first batch."""
    stop_s: float | None


def describe(loader: Loader, host: HostUse | None) -> BatchMaking:
    """Put together what the lab, the hooks and the look at the lock saw."""
    share = loader.computes
    return BatchMaking(
        batch=loader.batch,
        cpu=loader.batch.scale(share) if loader.batch is not None and share is not None else None,
        waiting=loader.batch.scale(1 - share) if loader.batch is not None and share is not None else None,
        alone=loader.loops is not None,
        gil_held=host.gil_held if host is not None else None,
        gil_training=host.gil_main if host is not None else None,
        lines=loader.lines,
        ready=loader.ready,
        late=loader.empty,
        out_of_order=loader.early,
        start_s=loader.start_s,
        stop_s=loader.stop_s,
    )

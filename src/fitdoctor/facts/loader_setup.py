"""A loader written in Python, or arrays, as they feed the training: how it is set up, what a batch takes."""

from __future__ import annotations

from dataclasses import dataclass

from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Alone
from fitdoctor.model import Interval, Site


@dataclass(frozen=True, slots=True)
class LoaderSetup:
    """What is known of it; None where the kind of loader does not have it or nobody said."""

    kind: str
    name: str | None
    """The user's class."""
    site: Site | None
    batch_size: int | None
    batches: int | None
    """In an epoch."""
    workers: int | None
    processes: bool
    """Workers are processes, not threads."""
    queue: int | None
    """Batches that may be ready at once."""
    bytes: int | None
    """Of all arrays."""
    ahead: bool
    """The next batch is prepared while the step runs."""
    batch: Interval | None
    """Seconds per batch, pulled alone."""
    cpu: Interval | None
    waiting: Interval | None
    """Of these; None where workers are processes, whose CPU time the lab does not see."""


def describe(training: Training, alone: Alone | None, *, ahead: bool) -> LoaderSetup:
    """Read how it is set up, and add what the lab measured of it alone."""
    info = training.info
    workers, processes = info.get("workers"), bool(info.get("multiprocessing")) and (info.get("workers") or 0) > 0
    cpu, waiting = _split(alone) if not processes else (None, None)
    site = info.get("dataset_site")
    arrays = info.get("arrays")
    size = info.get("batch_size")
    batches = info.get("batches") or info.get("steps_per_epoch")
    return LoaderSetup(
        kind=str(info.get("adapter")),
        name=info.get("dataset_class"),
        site=Site(str(site[0]), int(site[1])) if site else None,
        batch_size=int(size) if size else None,
        batches=int(batches) if batches else None,
        workers=int(workers) if workers is not None else None,
        processes=processes,
        queue=_queue(training),
        bytes=sum(int(each.get("bytes") or 0) for each in arrays) if arrays else None,
        ahead=ahead,
        batch=alone.seconds if alone is not None else None,
        cpu=cpu,
        waiting=waiting,
    )


def _queue(training: Training) -> int | None:
    """Return how many batches may be ready: Keras's queue, or what each worker of a DataLoader prepares."""
    info = training.info
    if info.get("queue") is not None:
        return int(info["queue"])
    each = info.get("prefetch_factor")
    return int(each) * int(info.get("workers") or 0) if each else None


def _split(alone: Alone | None) -> tuple[Interval | None, Interval | None]:
    """Return CPU seconds of a batch, and seconds in which no core was busy."""
    if alone is None:
        return None, None
    return alone.seconds.scale(alone.cores), alone.seconds.scale(max(0.0, 1 - alone.cores))

"""The step without its metrics."""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant
from fitdoctor.lab.rehearsal import with_settings

NAME = "metrics off"


def worth(seen: Seen) -> float:
    """Weigh the whole step: nothing outside of it tells what metrics cost."""
    return 0.3 * seen.shares["run"] if seen.info.get("metrics", True) else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train without the metrics given to `compile`; the loss stays."""
    metrics = [metric.name for metric in getattr(job.model._compile_metrics, "metrics", ())]
    if not metrics:
        raise CannotRun("no metrics were given to compile")
    off = Variant(metrics=False, callbacks=())
    yield Comparison("metrics off", lambda: job.block(off), lambda: job.block(BARE), {"metrics": metrics})
    yield from with_settings(job, seen.step_ns, str(seen.info.get("adapter")), {"metrics off": off})

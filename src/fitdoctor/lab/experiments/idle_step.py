"""A step that does nothing: what the loop around it costs."""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant

NAME = "a step that does nothing"


def worth(seen: Seen) -> float:
    """Weigh short steps: beside a long one the loop is next to nothing, which is soon shown."""
    return 0.5 * min(1.0, 1e6 / seen.step_ns)


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Let the loop run around nothing."""
    del seen
    idle = Variant(idle=True, callbacks=())
    yield Comparison("idle step", lambda: job.block(idle), lambda: job.block(BARE))

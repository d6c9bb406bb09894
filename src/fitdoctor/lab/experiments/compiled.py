"""The very same step, compiled, against the step as it runs op by op."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant
from fitdoctor.lab.rehearsal import with_settings

NAME = "the step compiled"


def worth(seen: Seen) -> float:
    """Weigh an eager step highly: it is seldom meant."""
    eager = seen.info.get("run_eagerly") and seen.info.get("backend") in ("tensorflow", "jax")
    return 5.0 if eager else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Compile what was not compiled."""
    compiled = Variant(run_eagerly=False, jit_compile=True if job.backend == "jax" else None, callbacks=())
    late = functools.partial(job.compiling, compiled)
    yield Comparison("compiled", lambda: job.block(compiled), lambda: job.block(BARE), late=late)
    yield from with_settings(job, seen.step_ns, str(seen.info.get("adapter")), {"compiled": compiled})

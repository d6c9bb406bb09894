"""Several steps per execution: 1, 8, 32."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant
from fitdoctor.lab.rehearsal import with_settings

NAME = "steps_per_execution"
_SHORT_NS = 20e6
TRIED = (1, 8, 32)


def worth(seen: Seen) -> float:
    """Weigh short steps: what an execution costs beside its steps is shared by more of them."""
    if seen.step_ns >= _SHORT_NS or seen.info.get("run_eagerly"):
        return 0.0
    return 0.6 * min(1.0, 1e6 / seen.step_ns)


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Try each count that the user does not have."""
    if job.backend == "torch":
        raise CannotRun("the torch backend runs one step per execution")
    own = job.own.steps_per_execution
    tried = {f"steps_per_execution={count}": Variant(steps_per_execution=count, callbacks=()) for count in TRIED}
    tried = {name: several for name, several in tried.items() if several.steps_per_execution != own}
    for name, several in tried.items():
        yield Comparison(
            name,
            functools.partial(job.block, several),
            functools.partial(job.block, BARE),
            {"steps_per_execution": several.steps_per_execution, "own": own},
            functools.partial(job.compiling, several),
        )
    yield from with_settings(job, seen.step_ns, str(seen.info.get("adapter")), tried)

"""Numbers too small for full precision taken as zero, by the switch that PyTorch has for it.

The switch holds for the thread that turns it and for none that runs already: so both sides train on one thread.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job

NAME = "denormal numbers as zero"
FEWEST = 0.01
"""Of the numbers that training changes: fewer are not worth the time of an experiment."""


def worth(seen: Seen) -> float:
    """Weigh the step on a processor; whether there are such numbers is known once they are counted, which is quick."""
    on_gpu = "gpu" in (seen.info.get("weights_on") or ())
    return seen.shares["run"] if seen.info.get("backend") == "torch" and not on_gpu else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train with and without them, each from the same state: once they are zero, they stay it."""
    del seen
    torch: Any = sys.modules.get("torch")
    if job.backend != "torch" or torch is None:
        raise CannotRun(f"{job.backend} has no switch for it")
    share = _share(torch, job.model)
    if share < FEWEST or _flushes(torch):
        return
    threads = int(torch.get_num_threads())

    def as_is() -> float:
        job.restore()
        torch.set_num_threads(1)
        try:
            return job.block(BARE)
        finally:
            torch.set_num_threads(threads)

    def flushed() -> float:
        if not torch.set_flush_denormal(True):
            raise CannotRun("this processor cannot take them as zero")
        try:
            return as_is()
        finally:
            torch.set_flush_denormal(False)

    yield Comparison("denormals flushed", flushed, as_is, {"share": share, "threads": 1})


def _share(torch: Any, model: Any) -> float:
    """Return which part of the weights and of the optimizer's own numbers is denormal."""
    every = found = 0
    for variable in (*model.variables, *model.optimizer.variables):
        value = variable.value.detach()
        if not value.is_floating_point() or value.device.type != "cpu":
            continue
        size = value.abs()
        every += size.numel()
        found += int(((size > 0) & (size < torch.finfo(value.dtype).tiny)).sum())
    return found / every if every else 0.0


def _flushes(torch: Any) -> bool:
    """Tell whether the user asked for it already: nothing else tells."""
    smallest = torch.full((1,), torch.finfo(torch.float32).tiny, dtype=torch.float32)
    return bool((smallest / 2 == 0).item())

"""As many threads as cores, where there are more: PyTorch's pool, the only one that can be changed while it runs."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job
from fitdoctor.probes.cgroup import usable_cores

NAME = "a thread per core"


def worth(seen: Seen) -> float:
    """Weigh the step where its pool is larger than what the process may use."""
    if seen.info.get("backend") != "torch" or "torch" not in sys.modules:
        return 0.0
    return 2.0 * seen.shares["run"] if _threads() > math.ceil(usable_cores()) else 0.0


def _threads() -> int:
    return int(sys.modules["torch"].get_num_threads())


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train with fewer threads, in turns with as many as there are."""
    del seen
    torch: Any = sys.modules.get("torch")
    if job.backend != "torch" or torch is None:
        raise CannotRun(f"the pool of {job.backend} cannot be changed while it runs")
    own, cores = _threads(), usable_cores()
    fewer = max(1, math.floor(cores))
    if own <= math.ceil(cores):
        raise CannotRun(f"{own} threads fit {cores:g} cores")

    def block() -> float:
        torch.set_num_threads(fewer)
        try:
            return job.block(BARE)
        finally:
            torch.set_num_threads(own)

    yield Comparison(f"threads={fewer}", block, lambda: job.block(BARE), {"own": own, "cores": cores})

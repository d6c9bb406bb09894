"""How many threads the framework computes with, against the cores it may use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Gap
from fitdoctor.probes.distributions import DISTRIBUTIONS


@dataclass(frozen=True, slots=True)
class ThreadPools:
    """The pool that runs the operations of a step, and what bounds it."""

    threads: int
    cores: float
    """Usable: of the affinity mask and the quota, the smaller."""
    bound: str
    """What sets the cores: quota, affinity or nothing but the machine."""

    @property
    def fitting(self) -> int:
        """How many threads the cores have work for."""
        return max(1, math.floor(self.cores))

    @property
    def too_many(self) -> bool:
        """More threads than cores; part of a core is one more thread's."""
        return self.threads > math.ceil(self.cores)


def establish(capture: Capture, training: Training) -> ThreadPools:
    """Take the size that was set, or the default: TensorFlow and JAX make a thread per core of the affinity mask."""
    environment: Mapping[str, Any] = capture.meta.get("environment") or {}
    stack: Mapping[str, Any] = capture.meta.get("stack") or {}
    cores = environment.get("cores")
    default = environment.get("affinity") or environment.get("logical_cores")
    threads = stack.get("intra_threads") or default
    if not cores or not threads or stack.get("backend") != training.backend:
        known = training.backend in DISTRIBUTIONS
        raise MissingEvidence(
            Gap(
                "thread pools",
                f"the capture does not say with how many threads {training.backend} computes, and on how many cores"
                if known
                else "which framework computes is not known",
                "run it again with this fitdoctor" if known else Gap.DOES_NOT_APPLY,
            )
        )
    return ThreadPools(int(threads), float(cores), _bound(environment))


def _bound(environment: Mapping[str, Any]) -> str:
    limits = {name: environment[name] for name in ("cpu_quota", "affinity", "logical_cores") if name in environment}
    smallest = min(limits, key=lambda name: float(limits[name]), default="logical_cores")
    if limits.get(smallest) == environment.get("logical_cores"):
        return "the machine's cores"
    return {"cpu_quota": "a CPU quota", "affinity": "an affinity mask"}.get(smallest, "the machine's cores")

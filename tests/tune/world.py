"""Runs that are made up: how fast they are is a function of their settings, on a clock that they move."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

from fitdoctor.model import Interval
from fitdoctor.tune.attempt import CHUNKS, Job, Look, Result
from fitdoctor.tune.seen import Seen
from fitdoctor.tune.settings import Settings

ABOUT: dict[str, Any] = {
    "adapter": "arrays",
    "steps_per_execution": 1,
    "jit_compile": False,
    "batch_size": 32,
    "precision": "float32",
    "backend": "tensorflow",
    "steps_per_epoch": 256,
    "samples": 8192,
    "cores": 2,
}


def seen(
    step_s: float = 0.01, batch: float | None = 32.0, samples: float = 32_000.0, once_s: float = 0.0, **about: Any
):
    """Make what a run says."""
    steps = samples / (batch or 32.0)
    return Seen(
        backend=about.pop("backend", "tensorflow"),
        kind=about.pop("kind", "fit"),
        where="train.py:9",
        step_s=Interval(step_s * 0.98, step_s, step_s * 1.02),
        batch=batch,
        steps=steps,
        training_s=steps * step_s + once_s,
        about={**ABOUT, **about},
        learning=((0, 320.0, 0.5),),
    )


class World:
    """An executor whose runs take made-up times."""

    def __init__(
        self, step_s: Callable[[Settings], float], *, noise: float = 0.0, slots: int = 1, **about: Any
    ) -> None:
        self.slots = slots
        self.now = 0.0
        self.made: list[Settings] = []
        self.jobs: list[tuple[Job, bool]] = []
        self.looks: dict[str, int] = {}
        self.interrupt_at: int | None = None
        self.failing: Callable[[Settings], str] = lambda settings: ""
        self.seconds = 10.0
        self.closed = self.cancelled = False
        self._step_s, self._noise, self._about = step_s, noise, about
        self._random = random.Random(0)
        self._lock = threading.Lock()

    def clock(self) -> float:
        return self.now

    def run(self, job: Job, look: Look, *, together: bool = False) -> Result:
        settings = job.settings
        with self._lock:
            self.made.append(settings)
            self.jobs.append((job, together))
            self.now += self.seconds
            if self.interrupt_at is not None and len(self.made) > self.interrupt_at:
                return Result(interrupted=True)
            took = self._step_s(settings) * self._random.lognormvariate(0, self._noise)
        failed = self.failing(settings)
        if failed:
            return Result(failed=failed)
        for chunk in range(1, CHUNKS):
            self.looks[str(settings)] = chunk
            if look(chunk, took):
                return Result(stopped=True)
        batch = float(settings.batch_size or 32)
        return Result(seen(took, batch, **{**self._about, **settings.data()}))

    def cancel(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        self.closed = True

"""The training in short epochs, with and without the thread that tunes its tf.data pipeline."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import FELT, Comparison, Seen
from fitdoctor.lab.job import BARE, Job, wait_for
from fitdoctor.rewrites.pulling import LEAD_SECONDS, Puller
from fitdoctor.rewrites.randomness import taken

NAME = "the pipeline without AUTOTUNE"
STEPS, LOADER = "without AUTOTUNE", "loader without AUTOTUNE"
EPOCH_SECONDS = 0.36
"""Epochs about as long: the thread sleeps twice as long each time, so a longer one would stand still for longer."""
ENDS = 5
"""Ends of epochs in a block: they do not all stand still."""
MOST_SECONDS = 5.0
"""A block that would take longer is not made."""


def worth(seen: Seen) -> float:
    """Weigh tf.data whose training stands still between epochs."""
    ours = seen.info.get("adapter") == "tf.data" and seen.info.get("backend") == "tensorflow"
    several = int(seen.info.get("epochs") or 1) > 1
    between = seen.shares["between epochs"] if ours and several else 0.0
    return min(45.0, 200 * between) if between > FELT else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train short epochs both ways; pull batches both ways, without beginning anew."""
    data = job.given.get("x")
    tf = sys.modules.get("tensorflow")
    if tf is None or not isinstance(data, tf.data.Dataset):
        raise CannotRun("the data is no tf.data pipeline that can be given other options")
    if data.options().autotune.enabled is False:
        raise CannotRun("AUTOTUNE is off already")
    if job.given.get("steps_per_epoch"):
        raise CannotRun("with steps_per_epoch the training keeps one iterator for all epochs")
    options = tf.data.Options()
    options.autotune.enabled = False
    per_epoch = seen.info.get("steps_per_epoch")
    steps = max(1, round(EPOCH_SECONDS * 1e9 / max(1.0, seen.step_ns)))
    seconds = (1 + ENDS) * min(steps, int(per_epoch or steps)) * seen.step_ns / 1e9
    if seconds > MOST_SECONDS:
        raise CannotRun("its steps take too long for several short epochs", do="try it in the script")
    few = data if per_epoch and int(per_epoch) <= steps else data.take(steps)
    as_is, without = _Epochs(job, few), _Epochs(job, few.with_options(options))

    def late() -> dict[str, Any]:
        return {"between_ns": {"as_is": as_is.between, "without": without.between}}

    detail = {"unit": "ns per step of short epochs", "epoch_s": seconds / (1 + ENDS)}
    yield Comparison(STEPS, without.block, as_is.block, detail, late, block_seconds=seconds)
    pullers = [Puller(job.passes(each)) for each in (data, data.with_options(options))]
    for puller in pullers:
        puller.block()
    blocks: list[Callable[[], float]] = [lambda: pullers[0].block(lead=LEAD_SECONDS)]
    blocks.append(lambda: pullers[1].block(lead=LEAD_SECONDS))
    yield Comparison(LOADER, blocks[1], blocks[0], {"unit": "ns per batch"})


class _Epochs:
    """Trains a few short epochs and keeps what passed from the end of one to the first step of the next."""

    def __init__(self, job: Job, data: Any) -> None:
        self._job = job
        self._data = data
        self.between: list[int] = []

    def block(self) -> float:
        """Return nanoseconds per step of all epochs but the first."""
        job = self._job
        put_back = taken(job.given.get("x"))
        seen = _Steps(job)
        same = {"class_weight": job.given.get("class_weight")}
        try:
            with job._as(BARE) as timer:
                seen.function = timer.function
                job.model.train_function = seen.run
                job.model.fit(x=self._data, epochs=1 + ENDS, verbose=0, callbacks=[seen.marks()], **same)
        finally:
            put_back()
        self.between += seen.between
        return seen.per_step()


class _Steps:
    """Stands in for a train function and keeps the time."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.function: Callable[..., Any] = lambda *args: None
        self.between: list[int] = []
        self._until = min(time.monotonic() + 2 * MOST_SECONDS, job.last + 1.0)
        self._epochs: list[tuple[int, int]] = []
        """Nanoseconds and steps of each, from the end of its first step on: that one waits for what is begun anew."""
        self._first = self._last = self._ended = 0
        self._count = 0

    def marks(self) -> Any:
        """Return the callback that tells the ends of epochs."""
        from keras.callbacks import LambdaCallback

        return LambdaCallback(on_epoch_end=lambda epoch, logs: self._epoch_ends())

    def run(self, *args: Any) -> Any:
        """Make a step."""
        if time.monotonic() > self._until:
            raise CannotRun("its epochs take too long to begin", do="try it in the script")
        start = time.perf_counter_ns()
        result = self.function(*args)
        wait_for(self._job.backend, result)
        self._last = time.perf_counter_ns()
        if self._count == 0:
            self._first = self._last
            if self._ended:
                self.between.append(start - self._ended)
        self._count += 1
        return result

    def _epoch_ends(self) -> None:
        self._epochs.append((self._last - self._first, self._count - 1))
        self._ended, self._count = self._last, 0

    def per_step(self) -> float:
        """Return nanoseconds per step, of all epochs but the first."""
        later = self._epochs[1:]
        steps = sum(count for _, count in later) * (self._job.own.steps_per_execution or 1)
        if steps <= 0:
            raise CannotRun("its epochs have too few steps to be compared", do="try it in the script")
        return sum(ns for ns, _ in later) / steps

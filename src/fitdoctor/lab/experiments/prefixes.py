"""A tf.data pipeline cut after each of its operators: what each stage costs."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import Job
from fitdoctor.probes.dataset_tf import name_of, stages, static_int

NAME = "each pipeline prefix"
TRAINS = False
BLOCK_SECONDS = 0.1
"""Short: there are many of them, and what one adds to another is known by the middle of several blocks."""
MOST_SECONDS = 0.5
"""A pass that is not over after this time, or twice the time of its first element, is left in the middle."""
FEWEST = 3


def worth(seen: Seen) -> float:
    """Weigh pipelines of tf.data, whether the step waits or not: they take cores from it."""
    return 2.0 if seen.info.get("adapter") == "tf.data" else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Pull elements from each prefix as the whole pipeline would run it, sources first.

    What the whole pipeline takes is the loader alone.
    """
    data: Any = job.given.get("x")
    options = data.options() if hasattr(data, "options") else None
    every = list(stages(data))
    counts = list(_at_once(every, seen.step_ns))
    for place, stage in enumerate(reversed(every[1:])):
        name = name_of(stage)
        if name == "Options":
            continue  # hands on what it is given, and costs nothing
        prefix = stage.with_options(options) if options is not None else stage
        detail = {"unit": "ns per element", "stage": place, "op": name, "of": len(every)}
        pull = _pull(prefix, counts[-1 - place])
        yield Comparison(f"prefix {place}: {name}", pull, detail=detail, block_seconds=BLOCK_SECONDS)


def _at_once(every: list[Any], step_ns: float) -> Iterator[int]:
    """Yield for each stage how many elements to pull at once: what makes a step, unless that takes very long."""
    count = 1
    for stage in every:
        yield max(1, min(count, int(count * BLOCK_SECONDS * 1e9 / max(step_ns, 1.0))))
        count *= static_int(getattr(stage, "_batch_size", 1)) or 1


def _pull(prefix: Any, count: int) -> Callable[[], float]:
    """Return what pulls a block and returns nanoseconds per element.

    Python takes a tenth of a millisecond for every element it is handed, more than most operators: so TensorFlow
    drops all but each last one of `count`.
    """
    known = int(prefix.cardinality())
    count = min(count, known) if known > 0 else count
    passes = Passes(functools.partial(iter, prefix.shard(count, count - 1) if count > 1 else prefix))
    return lambda: passes.block() / count


class Passes:
    """Pulls in blocks; one that begins a pass over the data goes on to its end, unless that takes very long.

    A shuffle that holds all elements does the work of a whole pass before it gives the first one: a part of a pass
    would tell either far too much or nothing.
    """

    def __init__(self, begin: Callable[[], Iterator[Any]], clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._begin = begin
        self._clock = clock
        self._elements: Iterator[Any] | None = None

    def block(self) -> float:
        """Return nanoseconds per pull."""
        count = spent = 0
        until = BLOCK_SECONDS * 1e9
        while spent < until or count < FEWEST:
            begins = self._elements is None
            start = self._clock()
            if self._elements is None:
                self._elements = self._begin()
            found = next(self._elements, None)
            took = self._clock() - start
            if found is None:
                self._elements = None
                if begins:
                    raise CannotRun("the data is used up: it cannot be begun anew", do="try it with data to read twice")
                if spent >= BLOCK_SECONDS * 1e9:
                    break
                continue
            count += 1
            spent += took
            if begins:
                until = max(until, MOST_SECONDS * 1e9, 2 * took)
        return spent / count

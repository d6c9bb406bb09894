"""The user's generator without the pipeline around it: what his own Python takes of what an element costs."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab import in_turn
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.experiments.loader_alone import Puller
from fitdoctor.lab.job import Job
from fitdoctor.probes.dataset_tf import stages
from fitdoctor.probes.input_tf_generators import KEPT

NAME = "the generator alone"
TRAINS = False
_AT_ONCE = 64
"""Elements between two readings of the clock: one element may take less than a reading."""


def worth(seen: Seen) -> float:
    """Weigh pipelines that hold one."""
    made = any(each.get("generator") for each in seen.info.get("dataset") or ())
    return 3.0 if made and seen.info.get("adapter") == "tf.data" else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Pull elements from the generator, in turns with the dataset made of it."""
    del seen
    for stage in stages(job.given.get("x")):
        kept = vars(stage).get(KEPT)
        if kept is not None:
            generator, args = kept
            begin = functools.partial(generator, *(getattr(each, "numpy", lambda each=each: each)() for each in args))
            bare = Bare(begin)
            yield Comparison(
                "generator alone", bare.block, Puller(functools.partial(iter, stage)).block,
                {"unit": "ns per element", **bare.site},
            )  # fmt: skip
            return
    raise CannotRun("the generator was made before it could be seen", do="start the script with fitdoctor run")


class Bare:
    """Pulls elements from a Python generator, in blocks."""

    def __init__(self, begin: Any) -> None:
        self._begin = begin
        self._elements = iter(begin())
        self.site = in_turn.written_at(self._elements)
        """Where the user wrote it."""

    def block(self, seconds: float = 0.1) -> float:
        """Return nanoseconds per element."""
        count = spent = begun = 0
        while spent < seconds * 1e9:
            start = time.perf_counter_ns()
            pulled = sum(1 for _ in zip(range(_AT_ONCE), self._elements, strict=False))
            spent += time.perf_counter_ns() - start
            count += pulled
            if pulled < _AT_ONCE:
                begun += 1
                if count == 0 and begun > 1:
                    raise CannotRun(
                        "the generator is used up: it cannot be begun anew",
                        do="try it with data that can be read twice",
                    )
                self._elements = iter(self._begin())
        return spent / count

"""A tf.data pipeline cut after each of its operators: what each stage costs."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.experiments.loader_alone import Puller
from fitdoctor.lab.job import Job
from fitdoctor.probes.dataset_tf import name_of, stages

NAME = "each pipeline prefix"


def worth(seen: Seen) -> float:
    """Weigh pipelines of tf.data, whether the step waits or not: they take cores from it."""
    return 1.0 if seen.info.get("adapter") == "tf.data" else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Pull elements from each prefix, sources first."""
    del seen
    every = list(stages(job.given.get("x")))
    for place, stage in enumerate(reversed(every)):
        name = name_of(stage)
        detail = {"unit": "ns per element", "stage": place, "op": name, "of": len(every)}
        yield Comparison(f"prefix {place}: {name}", Puller(functools.partial(iter, stage)).block, detail=detail)

"""A tf.data pipeline cut after each of its operators: what each stage costs."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.experiments.loader_alone import Puller
from fitdoctor.lab.job import Job

NAME = "each pipeline prefix"


def worth(seen: Seen) -> float:
    """Weigh pipelines of tf.data, whether the step waits or not: they take cores from it."""
    return 1.0 if seen.info.get("adapter") == "tf.data" else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Pull elements from each prefix, sources first."""
    del seen
    stages = list(_stages(job.given.get("x")))
    for place, stage in enumerate(reversed(stages)):
        name = type(stage).__name__.strip("_").removesuffix("V2").removesuffix("Dataset")
        detail = {"unit": "ns per element", "stage": place, "op": name, "of": len(stages)}
        yield Comparison(f"prefix {place}: {name}", Puller(functools.partial(iter, stage)).block, detail=detail)


def _stages(dataset: Any) -> Iterator[Any]:
    """Yield the dataset and what it is made of, outermost first, along its first inputs."""
    seen: set[int] = set()
    while dataset is not None and id(dataset) not in seen:
        seen.add(id(dataset))
        yield dataset
        inputs = dataset._inputs() if hasattr(dataset, "_inputs") else []
        dataset = inputs[0] if inputs else None

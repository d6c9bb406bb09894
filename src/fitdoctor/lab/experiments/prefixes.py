"""A tf.data pipeline cut after each of its operators: what each stage costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BLOCK_SECONDS, Job

NAME = "each pipeline prefix"
_FEWEST = 3


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
        yield Comparison(f"prefix {place}: {name}", _pull(stage), detail=detail)


def _stages(dataset: Any) -> Iterator[Any]:
    """Yield the dataset and what it is made of, outermost first, along its first inputs."""
    seen: set[int] = set()
    while dataset is not None and id(dataset) not in seen:
        seen.add(id(dataset))
        yield dataset
        inputs = dataset._inputs() if hasattr(dataset, "_inputs") else []
        dataset = inputs[0] if inputs else None


def _pull(dataset: Any) -> Callable[[], float]:
    elements: Iterator[Any] = iter(())

    def block() -> float:
        nonlocal elements
        count, spent, empty = 0, 0, 0
        while spent < BLOCK_SECONDS * 1e9 or count < _FEWEST:
            start = time.perf_counter_ns()
            try:
                next(elements)
            except StopIteration:
                empty += 1
                if empty > 1 and count == 0:
                    raise CannotRun("a stage of the pipeline gives nothing when it is begun anew") from None
                elements = iter(dataset)
                continue
            spent += time.perf_counter_ns() - start
            count += 1
        return spent / count

    return block

"""What would be left of the input if the work that is the same in every epoch were done once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.experiments.loader_alone import Puller
from fitdoctor.lab.job import Job
from fitdoctor.lab.rebuilt import rebuilt
from fitdoctor.probes.dataset_tf import name_of, stages
from fitdoctor.probes.input_tf_generators import KEPT

NAME = "a cache of what is the same in every epoch"
WORK = frozenset({"Map", "ParallelMap", "Interleave", "ParallelInterleave", "FlatMap", "Filter"})
MIXES = frozenset({"Shuffle", "Repeat", "Cache", "Random", "Sample", "DirectedInterleave"})
"""Above these an element's place or number differs from epoch to epoch, or it is cached already."""
FILL_SECONDS = 1.5
MOST_BYTES = 256 << 20
COMPARED = 4


def worth(seen: Seen) -> float:
    """Weigh pipelines that do something to their elements and do it in more than one epoch."""
    operators = [str(each.get("op")) for each in seen.info.get("dataset") or ()]
    works = any(op in WORK for op in operators) and not any(op == "Cache" for op in operators)
    return 2.0 if works and seen.info.get("adapter") == "tf.data" and (seen.info.get("epochs") or 1) > 1 else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Pull batches of cached elements, in turns with the loader as it is."""
    del seen
    cut, above = _cut(job.given.get("x"))
    size = _bytes(cut)
    cached = _filled(cut, size)
    data = rebuilt(cached.repeat(), above, job.batch_rows, remedy="try .cache() in the script")
    puller = Puller(lambda: iter(data))
    puller.block()
    cardinality = int(cut.cardinality())
    detail = {
        "unit": "ns per batch",
        "element_bytes": size,
        "elements": cardinality if cardinality > 0 else None,
        "after": name_of(cut),
    }
    yield Comparison("cached elements", puller.block, Puller(job.loader).block, detail)


def _cut(dataset: Any) -> tuple[Any, list[Any]]:
    """Return the last stage whose elements are the same in every epoch, and the stages above it."""
    every = list(stages(dataset))
    cut, above = None, []
    for place in reversed(range(len(every))):
        if name_of(every[place]) in MIXES:
            break
        # A generator of the user's may do more than yield.
        if name_of(every[place]) in WORK and KEPT not in vars(every[place]):
            cut, above = every[place], every[:place]
    if cut is None:
        raise CannotRun("nothing is done to the elements before they are shuffled or repeated")
    if _elements(cut) != _elements(cut):
        raise CannotRun("its elements differ from epoch to epoch")
    return cut, above


def _elements(dataset: Any) -> list[bytes]:
    from keras import tree

    return [leaf.numpy().tobytes() for each in dataset.take(COMPARED) for leaf in tree.flatten(each)]


def _bytes(dataset: Any) -> int:
    seen = [len(each) for each in _elements(dataset)]
    return max(1, sum(seen) // COMPARED)


def _filled(dataset: Any, size: int) -> Any:
    """Cache as many elements as fit and as the time allows, and go through them once."""
    most = max(1, MOST_BYTES // size)
    start = time.monotonic()
    count = 0
    for _ in dataset.take(most):
        count += 1
        if time.monotonic() - start > FILL_SECONDS / 2:
            break
    if count == 0:
        raise CannotRun("the pipeline gave no element", do="try it with data that can be read twice")
    cached = dataset.take(count).cache()
    for _ in cached:
        pass
    return cached

"""Elements below a cache drawn twice, and drawn twice behind one: whether a cache freezes what should be random."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.experiments.loader_alone import Puller
from fitdoctor.lab.job import BLOCK_SECONDS, Job
from fitdoctor.lab.pictures import MAPS, kept, raw
from fitdoctor.probes.dataset_tf import name_of, stages
from fitdoctor.probes.input_tf_generators import KEPT
from fitdoctor.probes.random_tf import draws
from fitdoctor.rewrites.graphs import inlined, mapped

NAME = "random elements drawn again"
TRAINS = False


def worth(seen: Seen) -> float:
    """Weigh pipelines with a cache above a function that draws random numbers."""
    below = False
    for operator in seen.info.get("dataset") or ():
        if below and operator.get("random") and operator.get("op") in MAPS:
            return 0.5
        below = below or operator.get("op") == "Cache"
    return 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Draw the same few elements anew, in turns with a cache of them; count those that came out differently."""
    del seen
    stage = _random_below_cache(job.given.get("x"))
    elements, count = kept(stage._input_dataset)
    function = inlined([stage._map_func.function])

    def drawn(data: Any) -> Any:
        return mapped(data, function, function.outputs, parallel=_parallel(stage))

    once, behind = drawn(elements), drawn(elements).cache()
    twice, turned = once, 0
    if any(name_of(below) == "Shuffle" for below in stages(stage)):
        # With a seed the same numbers are drawn in every epoch, but for elements that come in another order.
        twice, turned = drawn(elements.skip(1).concatenate(elements.take(1))), 1
    detail = {"unit": "ns per element", "elements": count, "differ": _changes(once, twice, turned)}
    detail["differ_behind_cache"] = _changes(behind, behind, 0)
    anew, again = Puller(lambda: iter(once.repeat())), Puller(lambda: iter(behind.repeat()))
    again.block(0.05)
    yield Comparison("drawn anew", anew.block, again.block, detail, block_seconds=BLOCK_SECONDS)


def _random_below_cache(dataset: Any) -> Any:
    """Return the outermost map below a cache that draws random numbers."""
    below = False
    found = None
    for stage in stages(dataset):
        if KEPT in vars(stage):
            raise CannotRun("a generator of the user's may do more than yield", do="try it in the script")
        if below and found is None and name_of(stage) in MAPS:
            nodes = inlined([stage._map_func.function]).nodes
            found = stage if any(draws(node.kind) for node in nodes) else None
        below = below or name_of(stage) == "Cache"
    if found is None:
        raise CannotRun("no map below the cache draws random numbers")
    return found


def _parallel(stage: Any) -> int | None:
    own = getattr(stage, "_num_parallel_calls", None)
    return None if own is None else int(own)


def _changes(one: Any, other: Any, turned: int) -> int:
    """Return how many elements differ between two passes, the second of which begins so many elements later."""
    first, second = ([[raw(leaf) for leaf in each] for each in data] for data in (one, other))
    back = second[-turned:] + second[:-turned] if turned else second
    return sum(a != b for a, b in zip(first, back, strict=True))

"""The first batch of an epoch with the user's shuffle, and with one that fills its buffer sooner."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import Job
from fitdoctor.lab.pictures import MAPS, raw
from fitdoctor.probes.dataset_tf import name_of, stages
from fitdoctor.probes.input_tf_built import built

NAME = "a shuffle that is filled sooner"
TRAINS = False
SMALLER = 8
"""So many times smaller a buffer is tried where nothing can be moved above the shuffle."""
FILL_SECONDS = 0.8
FEWEST_BATCHES = 4
"""No buffer smaller than this many batches is tried."""


def worth(seen: Seen) -> float:
    """Weigh pipelines with a shuffle: the larger its buffer for a batch, the more."""
    rows = seen.info.get("batch_size") or 1
    buffers = [each.get("buffer") or 0 for each in seen.info.get("dataset") or () if each.get("op") == "Shuffle"]
    large = any(buffer > FEWEST_BATCHES * rows for buffer in buffers)
    return 0.7 if large and seen.info.get("adapter") == "tf.data" and (seen.info.get("epochs") or 1) > 1 else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Begin an epoch as it is, in turns with the shuffle before the maps below it, or with a smaller buffer."""
    del seen
    every = list(stages(job.given.get("x")))
    place = next((place for place, stage in enumerate(every) if name_of(stage) == "Shuffle"), None)
    if place is None:
        raise CannotRun("the pipeline has no shuffle")
    shuffle, below = every[place], every[place + 1 :]
    if any(name_of(stage) == "Cache" for stage in every[:place]):
        raise CannotRun("a cache above the shuffle fills once")
    maps, rows, where = _maps_of(below), job.batch_rows, built(shuffle)
    full = _filled(shuffle)
    tried = _affordable(below[0], full, rows)
    # Filling takes in proportion to the buffer, so a part of it tells as much.
    detail: dict[str, Any] = {"unit": "ns per epoch", "buffer": int(shuffle._buffer_size), "scale": full / tried}
    detail["element_bytes"] = _bytes(below[0])
    if where is not None:
        detail.update(path=where.path, line=where.line, symbol=where.symbol)
    if maps:
        data = _shuffled(below[len(maps)], tried)
        for stage in reversed(maps):
            data = _again(data, stage)
    else:
        smaller = max(full // SMALLER, FEWEST_BATCHES * rows)
        if smaller >= full:
            raise CannotRun("its buffer holds few batches as it is")
        detail["smaller"] = smaller
        data = _shuffled(below[0], max(1, round(smaller * tried / full)))
    as_is, sooner = _first(_shuffled(below[0], tried), rows), _first(data, rows)
    yield Comparison("shuffle filled sooner", sooner, as_is, detail, block_seconds=FILL_SECONDS)


def _filled(shuffle: Any) -> int:
    """Return how many elements the buffer holds once it is full: no more than there are."""
    count = int(shuffle._input_dataset.cardinality())
    return min(int(shuffle._buffer_size), count) if count > 0 else int(shuffle._buffer_size)


def _affordable(data: Any, full: int, rows: int) -> int:
    """Return how large a buffer can be filled in the time of a block."""
    start, count = time.monotonic(), 0
    for _ in data.take(full):
        count += 1
        if time.monotonic() - start > FILL_SECONDS:
            break
    return max(1, min(full, max(count, rows)))


def _maps_of(below: list[Any]) -> list[Any]:
    """Return the maps right below the shuffle, outermost first."""
    maps: list[Any] = []
    for stage in below[:-1]:
        if name_of(stage) not in MAPS:
            break
        maps.append(stage)
    return maps


def _shuffled(data: Any, buffer: int) -> Any:
    return data.shuffle(buffer, seed=1)


def _again(data: Any, stage: Any) -> Any:
    """Put a map of the user's on another input: his traced function is called, not traced again."""
    tf = sys.modules["tensorflow"]
    structure = sys.modules["tensorflow.python.data.util.structure"]
    spec, function = data.element_spec, stage._map_func

    def call(*element: Any) -> Any:
        given = element if type(spec) is tuple else element[0]
        results = function.function(*structure.to_tensor_list(spec, given))
        return structure.from_compatible_tensor_list(function.output_structure, results)

    own = getattr(stage, "_num_parallel_calls", None)
    parallel = None if own is None else int(own)
    return data.map(tf.autograph.experimental.do_not_convert(call), num_parallel_calls=parallel)


def _first(data: Any, rows: int) -> Callable[[], float]:
    """Return what begins an epoch and returns the nanoseconds until enough elements for a batch are there."""

    def begin() -> float:
        start = time.perf_counter_ns()
        for _ in data.take(rows):
            pass
        return float(time.perf_counter_ns() - start)

    return begin


def _bytes(data: Any) -> int:
    """Return the size of an element as the shuffle holds it."""
    for element in data.take(1):
        return sum(len(raw(leaf)) for leaf in sys.modules["keras"].tree.flatten(element))
    raise CannotRun("the pipeline gave no element", do="try it with data that can be read twice")

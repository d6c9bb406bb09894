"""A tf.data pipeline as TensorFlow ran it: what each of its operators did, from one look at it to the next."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor.facts import rows
from fitdoctor.model import Interval, LiveOperator

_MERGES = frozenset({"Zip", "Concatenate", "DirectedInterleave"})
"""Operators whose inputs stand side by side; other inputs beyond the first are made for single elements, and pass."""

_UNALIKE = 0.7
"""By how much more (as a logarithm) than another's the elements per step of an iterator may differ from one."""

Path = tuple[int, ...]
"""Where an operator stands: from the end of the pipeline on, which input to follow."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A number somebody chose: parallel calls, or the size of a buffer."""

    value: float
    most: float | None
    """None: there is no bound worth naming."""
    tuned: bool
    """Left to AUTOTUNE."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator that ran."""

    path: Path
    name: str
    inputs: tuple[Path, ...]
    per_step: float | None
    """Elements it gave per step of the training."""
    seconds: Interval | None
    """Of its own per element, by the clocks of the threads that did it: waiting counts, parallel calls add up."""
    bytes_each: float | None
    parallel: Setting | None
    buffer: Setting | None
    buffered: float
    """Elements it had ready, on average of the looks."""


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at one iterator."""

    iterator: int
    since: int
    step: int
    nodes: Mapping[Path, LiveOperator]


def live(found: Sequence[LiveOperator], calls: frozenset[int]) -> tuple[Node, ...]:
    """Return what ran to feed these calls, from the end of the pipeline on; nothing where nobody looked."""
    looks = _of_the_training(_looks([each for each in found if each.call in calls]))
    if not looks:
        return ()
    usual = _usual([look for look in looks if look.iterator == looks[-1].iterator])
    newest = usual.nodes
    same = [look for look in looks if _shape(look) == _shape(usual)]
    windows = list(_windows(same))
    return tuple(_node(path, newest, same, windows) for path in sorted(newest, key=lambda path: (len(path), path)))


def _usual(looks: Sequence[_Look]) -> _Look:
    """Return the newest look of the shape that was seen most often.

    An operator that has given all it had takes what is below it apart, so the last look can show half a pipeline; one
    that reads from its cache has nothing below it from the second time on.
    """
    shapes = [_shape(look) for look in looks]
    return max(reversed(looks), key=lambda look: (shapes.count(_shape(look)), len(look.nodes)))


def _looks(found: Sequence[LiveOperator]) -> list[_Look]:
    looks = []
    for (iterator, _), group in itertools.groupby(found, key=lambda each: (each.iterator, each.t_ns)):
        each = list(group)
        looks.append(_Look(iterator, each[0].since, each[0].step, dict(_paths(each))))
    return [look for look in looks if look.nodes]


def _paths(nodes: Sequence[LiveOperator]) -> Iterator[tuple[Path, LiveOperator]]:
    by_id = {each.node: each for each in nodes}

    def inputs(node: LiveOperator) -> list[LiveOperator]:
        below = [by_id[each] for each in node.inputs if each in by_id]
        # The inner half of a cache is no operator of its own.
        return [other for each in below for other in (inputs(each) if each.name.endswith("Impl") else [each])]

    ends = [each for each in nodes if each.root]
    # What the iterator itself adds.
    ends = [other for each in ends for other in (inputs(each) if each.name == "Root" else [each])]
    waiting: list[tuple[Path, LiveOperator]] = [((), each) for each in ends[:1]]
    while waiting:
        path, node = waiting.pop()
        yield path, node
        below = inputs(node)
        for place, other in enumerate(below if plain(node.name) in _MERGES else below[:1]):
            waiting.append(((*path, place), other))


def plain(name: str) -> str:
    """Return the name of an operator without the version and the variant that ran.

    >>> plain("ParallelMapV2"), plain("FiniteRepeat"), plain("MemoryCache"), plain("MapAndBatch")
    ('Map', 'Repeat', 'Cache', 'MapAndBatch')
    """
    name = name.partition("[")[0]
    if name[-1:].isdigit() and name.rstrip("0123456789").endswith("V"):
        name = name.rstrip("0123456789")[:-1]
    for variant in ("Legacy", "Parallel", "Finite", "Forever", "Empty", "Memory", "File", "From"):
        if name != variant:
            name = name.removeprefix(variant)
    return name


def _shape(look: _Look) -> dict[Path, str]:
    return {path: node.name for path, node in look.nodes.items()}


def _of_the_training(looks: list[_Look]) -> list[_Look]:
    """Keep the iterators that gave about as many elements as there were steps: a loop may hold others beside it."""
    distances = {iterator: _distance(list(each)) for iterator, each in _by_iterator(looks)}
    nearest = min(distances.values(), default=0.0)
    return [look for look in looks if distances[look.iterator] <= nearest + _UNALIKE]


def _by_iterator(looks: Sequence[_Look]) -> Iterator[tuple[int, Iterator[_Look]]]:
    yield from itertools.groupby(sorted(looks, key=lambda look: look.iterator), key=lambda look: look.iterator)


def _distance(looks: Sequence[_Look]) -> float:
    last = looks[-1]
    steps = last.step - last.since
    return abs(math.log(max(last.nodes[()].elements, 0.01) / steps)) if steps > 0 else math.inf


@dataclass(frozen=True, slots=True)
class _Window:
    """What happened between two looks at the same iterator."""

    steps: int
    before: Mapping[Path, LiveOperator] | None
    after: Mapping[Path, LiveOperator]

    def lived(self, path: Path) -> bool:
        """Tell whether the operator was there all the time: below a repeat it is made anew, and counts anew."""
        return self.before is None or self.before[path].node == self.after[path].node

    def grown(self, path: Path, counter: str) -> int:
        first = 0 if self.before is None else int(getattr(self.before[path], counter))
        return int(getattr(self.after[path], counter)) - first


def _windows(looks: Sequence[_Look]) -> Iterator[_Window]:
    """Difference neighbouring looks; where epochs are so short that each was looked at once, count from its start."""
    once: list[_Window] = []
    several = False
    for _, group in _by_iterator(looks):
        each = list(group)
        once.append(_Window(each[0].step - each[0].since, None, each[0].nodes))
        for before, after in itertools.pairwise(each):
            if after.step > before.step:
                several = True
                yield _Window(after.step - before.step, before.nodes, after.nodes)
    if not several:
        yield from (window for window in once if window.steps > 0)


def _node(path: Path, newest: Mapping[Path, LiveOperator], looks: Sequence[_Look], windows: Sequence[_Window]) -> Node:
    last = newest[path]
    windows = [window for window in windows if window.lived(path)]
    worked = [window for window in windows if window.grown(path, "elements") > 0]
    elements = [float(window.grown(path, "elements")) for window in worked]
    steps = sum(window.steps for window in windows)
    seconds = [max(0, window.grown(path, "processing_ns")) / 1e9 for window in worked]
    produced = sum(max(0, window.grown(path, "produced")) for window in worked)
    return Node(
        path=path,
        name=last.name,
        inputs=tuple(each for each in newest if each[:-1] == path and each),
        per_step=sum(elements) / steps if steps else None,
        seconds=rows.means({"own": seconds}, elements)["own"] if elements else None,
        bytes_each=produced / sum(elements) if elements and produced else None,
        parallel=_setting(last.parameters, "parallelism"),
        buffer=_setting(last.parameters, "buffer_size"),
        buffered=sum(look.nodes[path].buffered for look in looks) / len(looks),
    )


def _setting(parameters: Mapping[str, Mapping[str, Any]], name: str) -> Setting | None:
    found = parameters.get(name)
    if found is None:
        return None
    most = found.get("max")
    bounded = most is not None and math.isfinite(most) and most < 1e9
    # The state is what is in force, the value what the model would choose now.
    value = float(found.get("state") or found["value"])
    return Setting(value, float(most) if most is not None and bounded else None, bool(found["tunable"]))

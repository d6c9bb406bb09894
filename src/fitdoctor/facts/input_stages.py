"""The operators of a tf.data pipeline as they are shown: the user's and TensorFlow's own, as elements pass them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fitdoctor.facts.input_pipeline import InputPipeline, Operator
from fitdoctor.facts.live_pipeline import Node, Path, Setting, plain
from fitdoctor.model import Interval, Site

_RANDOM = {
    "seeded": "random, seeded",
    "unseeded": "random, without a seed",
    "stateless": "random, stateless",
    "generator": "random, from a generator that keeps state",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator as it is shown; None where something is not known or does not arise."""

    op: str
    place: int | None
    """In the user's pipeline, from the end on; None: it is not the user's."""
    branch: int
    """0: on the way of the first inputs; more: beside it, until an operator takes from both."""
    inputs: tuple[int, ...] = ()
    site: Site | None = None
    ran: str | None = None
    """TensorFlow's name of what ran."""
    per_step: float | None = None
    """Elements that make a step."""
    rate: Interval | None = None
    """Elements per second that the pipeline up to here gives alone."""
    wall: Interval | None = None
    """Own seconds per step, pulled alone."""
    cpu: Interval | None = None
    """CPU seconds of its own per step, on all cores."""
    waiting: Interval | None = None
    """Seconds of its own per step in which no core was busy."""
    busy: Interval | None = None
    """Own seconds per element in the run, by the clocks of the threads that did it."""
    bytes_each: float | None = None
    elements: int | None = None
    """In an epoch."""
    cache_bytes: float | None = None
    """What a cache of its elements would need."""
    parallel: Setting | None = None
    buffer: Setting | None = None
    fill: float | None = None
    """How full its buffer was, on average: empty, and who follows it waits; full, and it is ahead."""
    repeats: bool = False
    """As far as its operators and those below it tell, it gives the same elements in every epoch."""
    cached: bool = False
    """A cache follows: from the second epoch on its work is not done again."""
    slowest: bool = False
    """It takes the largest part of what the input takes."""
    notes: tuple[str, ...] = ()


def stages(pipeline: InputPipeline) -> tuple[Stage, ...]:
    """Return the operators in the order in which elements pass, those that were added where they ran."""
    operators = pipeline.operators or ()
    maker = "TensorFlow added this" if operators else "Keras made this"
    added = {node.path: node for node in pipeline.added}
    found: list[Stage] = []
    passed: set[int] = set()

    def own(path: Path, branch: int) -> None:
        """Add what ran right above `path` and is not the user's."""
        while path and path[:-1] in added:
            path = path[:-1]
            found.append(_own(added.pop(path), branch, maker))

    def walk(place: int, branch: int) -> None:
        if place in passed:  # two operators take from the same one
            return
        passed.add(place)
        for number, below in enumerate(operators[place].inputs):
            walk(below, branch + (number > 0))
        found.append(_stage(place, operators, branch))
        node = operators[place].runs_as
        if node is not None and _ends(place, operators):
            own(node.path, branch)

    if operators:
        walk(0, 0)
    rest = sorted(added.values(), key=lambda node: len(node.path), reverse=True)
    return _marked([*(_own(node, 0, maker) for node in rest), *found])


def _stage(place: int, operators: Sequence[Operator], branch: int) -> Stage:
    operator = operators[place]
    node, cost = operator.runs_as, operator.cost
    cached, ends = _cached(place, operators), _ends(place, operators)
    buffer = node.buffer if node is not None and node.buffer is not None else _asked(operator.buffer)
    return Stage(
        op=operator.op,
        place=place,
        branch=branch,
        inputs=operator.inputs,
        site=operator.site,
        ran=node.name if node is not None else None,
        per_step=operator.per_step,
        rate=inverse(cost.element) if cost is not None else None,
        wall=cost.wall if cost is not None else None,
        cpu=cost.cpu if cost is not None else None,
        waiting=cost.waiting if cost is not None else None,
        busy=node.seconds if node is not None and ends else None,
        bytes_each=operator.bytes_each,
        elements=operator.elements,
        cache_bytes=operator.cache_bytes,
        parallel=node.parallel if node is not None else _asked(operator.parallel),
        buffer=buffer,
        fill=_fill(node, buffer) if ends else None,
        repeats=_repeats(place, operators),
        cached=cached,
        notes=tuple(_notes(operator, operators, cached=cached)),
    )


def _ends(place: int, operators: Sequence[Operator]) -> bool:
    """Tell whether an operator is the last of those that ran as one: what ran gives its elements, and takes as long."""
    node = operators[place].runs_as
    return not any(place in each.inputs and each.runs_as is node for each in operators)


def _asked(value: int | None) -> Setting | None:
    """Return what the script asked for, where nobody saw what became of it; what it left to AUTOTUNE is not known."""
    return Setting(float(value), None, False) if value is not None and value >= 0 else None


def _own(node: Node, branch: int, maker: str) -> Stage:
    return Stage(
        op=plain(node.name),
        place=None,
        branch=branch,
        ran=node.name,
        per_step=node.per_step,
        busy=node.seconds,
        bytes_each=node.bytes_each,
        parallel=node.parallel,
        buffer=node.buffer,
        fill=_fill(node, node.buffer),
        notes=(maker,),
    )


def _fill(node: Node | None, buffer: Setting | None) -> float | None:
    return min(1.0, node.buffered / buffer.value) if node is not None and buffer is not None and buffer.value else None


def inverse(seconds: Interval) -> Interval | None:
    """Return how many per second."""
    return Interval(1 / seconds.high, 1 / seconds.mid, 1 / seconds.low) if seconds.low > 0 else None


def _notes(operator: Operator, operators: Sequence[Operator], *, cached: bool) -> Iterator[str]:
    if operator.python:
        yield "calls Python, which holds the GIL"
    if operator.random is not None:
        yield _RANDOM.get(operator.random, operator.random)
    elif operator.stateful and not operator.python:
        yield "keeps state"
    if operator.cache is not None:
        yield f"keeps elements in {'a file' if operator.cache == 'file' else 'memory'}"
    elif cached:
        yield "cached further on: done in the first epoch only"
    node = operator.runs_as
    if node is None:
        return
    others = [each.op for each in operators if each is not operator and each.runs_as is node]
    if others:
        yield f"ran together with {' and '.join(others)}, as {node.name}"
    elif node.name.startswith("Parallel") and operator.parallel is None and not operator.op.startswith("Parallel"):
        yield f"TensorFlow made it parallel: ran as {node.name}"


def _repeats(place: int, operators: Sequence[Operator]) -> bool:
    operator = operators[place]
    changes = operator.random or operator.python or operator.stateful or operator.endless
    return not changes and all(_repeats(below, operators) for below in operator.inputs)


def _cached(place: int, operators: Sequence[Operator]) -> bool:
    """Tell whether all that an operator gives passes through a cache."""
    takers = {below: number for number, each in enumerate(operators) for below in each.inputs}
    while place in takers:
        place = takers[place]
        if operators[place].op == "Cache":
            return True
    return False


def _marked(found: list[Stage]) -> tuple[Stage, ...]:
    """Mark the stage that takes most of what the input takes, where the lab measured all on the way."""
    own = [stage for stage in found if stage.place is not None and stage.op != "Options"]
    way = [stage for stage in own if not stage.branch and not stage.cached]
    if not way or any(stage.wall is None for stage in way):
        return tuple(found)
    slowest = max(way, key=lambda stage: stage.wall.mid if stage.wall is not None else 0.0)
    clear = slowest.wall is not None and slowest.wall.low > 0
    return tuple(replace(stage, slowest=clear and stage is slowest) for stage in found)

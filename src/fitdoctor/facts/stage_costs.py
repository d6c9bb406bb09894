"""What each stage of a tf.data pipeline costs: the lab pulled elements from every prefix of it, alone.

Between one prefix and the next lies one operator: what it adds is its own.  CPU time is wall time by the cores that
were busy meanwhile; where less than one was, the rest of the time everybody waited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fitdoctor.facts import rows
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Interval, Trial

_ONE_TO_ONE = frozenset(
    {
        "Map", "ParallelMap", "Prefetch", "Shuffle", "Repeat", "Cache", "Take", "Skip", "Options", "Enumerate", "Scan",
        "Zip", "IgnoreErrors", "MaxIntraOpParallelism", "PrivateThreadPool", "Snapshot", "Model",
    }
)  # fmt: skip
"""Operators that take an element for each they give, as the steps go on."""


class Staged(Protocol):
    """An operator of the user's."""

    @property
    def op(self) -> str: ...  # noqa: D102
    @property
    def inputs(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def batch(self) -> int | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class StageCost:
    """What the pipeline takes up to an operator, pulled alone; and what of it, per step, is the operator's own."""

    element: Interval
    """Seconds per element of the pipeline up to here."""
    cores: float
    """Busy meanwhile."""
    wall: Interval | None
    """Own seconds per step; None where nobody knows how many elements make a step."""
    cpu: Interval | None
    waiting: Interval | None


def chain(operators: Sequence[Staged]) -> list[int]:
    """Return the places of the operators from the end of the pipeline on, along first inputs."""
    places = [0] if operators else []
    while places and operators[places[-1]].inputs:
        places.append(operators[places[-1]].inputs[0])
    return places


def per_step(operators: Sequence[Staged], seen: Mapping[int, float | None]) -> dict[int, float]:
    """Return how many elements of each operator make a step: by batch sizes, else as counted in the run."""
    found: dict[int, float] = {}
    count: float | None = 1.0
    for place in chain(operators):
        if count is None:
            count = seen.get(place)
        if count is None:
            break
        found[place] = count
        operator = operators[place]
        if operator.batch:
            count *= operator.batch
        elif operator.op not in _ONE_TO_ONE:
            count = None
    return found


def costs(operators: Sequence[Staged], trials: Trials, steps: Mapping[int, float]) -> dict[int, StageCost]:
    """Return what each operator costs, where the lab pulled every prefix."""
    places = chain(operators)
    pulled: dict[int, Trial] = {}
    for trial in trials.trials:
        place = _place(trial, operators, places)
        if place is not None and trial.changed_ns and trial.detail.get("cores") is not None:
            pulled.setdefault(place, trial)
    if len(pulled) == 1 and len(places) > 1:
        return {}  # the whole alone says nothing of its stages
    found: dict[int, StageCost] = {}
    # Options hand on what they are given: the lab leaves them out.
    stages = [place for place in places if operators[place].op != "Options" or place in pulled]
    for place, below in zip(stages, [*stages[1:], None], strict=False):
        if place not in pulled:
            continue
        element, cores = _element(pulled[place])
        own = None
        if place in steps and (below is None or (below in pulled and below in steps)):
            whole = _of_step(pulled[place], steps[place])
            own = whole if below is None else _less(whole, _of_step(pulled[below], steps[below]))
        found[place] = StageCost(element, cores, *(own or (None, None, None)))
    return found


def _place(trial: Trial, operators: Sequence[Staged], places: Sequence[int]) -> int | None:
    """Return whose prefix a trial pulled; None where it pulled something else.  The whole is the loader alone."""
    detail = trial.detail
    if trial.name == "loader alone":
        return next((place for place in places if operators[place].op != "Options"), None)
    if not trial.name.startswith("prefix ") or detail.get("of") != len(places):
        return None
    place = places[len(places) - 1 - int(detail["stage"])]
    return place if operators[place].op == detail.get("op") else None


def _element(trial: Trial) -> tuple[Interval, float]:
    return rows.median(trial.changed_ns).scale(1e-9), float(trial.detail["cores"])


def _of_step(trial: Trial, count: float) -> tuple[Interval, Interval, Interval]:
    """Return wall seconds, CPU seconds and seconds in which no core was busy, per step."""
    element, cores = _element(trial)
    wall = element.scale(count)
    return wall, wall.scale(cores), wall.scale(max(0.0, 1 - cores))


def _less(whole: tuple[Interval, ...], below: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Return what one operator adds: never less than nothing, however the measurements scatter."""
    return tuple(
        Interval(max(0.0, one.low - other.high), max(0.0, one.mid - other.mid), max(0.0, one.high - other.low))
        for one, other in zip(whole, below, strict=True)
    )

"""How the parts of a step went in the course of the training: the step model again, on one stretch after the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import TypeVar

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import resolve
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Drained, Inside, Steps

MOST = 20
FEWEST_STEPS = 30
"""A stretch needs so many steps to be told apart from noise."""

Columns = TypeVar("Columns", Steps, Inside, Drained)


def course(capture: Capture, most: int = MOST) -> Iterator[tuple[int, StepModel]]:
    """Yield the last step of each stretch of the leading training's last call, and the step model of the stretch."""
    try:
        training = resolve(capture).get(Training)
    except MissingEvidence:
        return
    call = next((each for each in reversed(training.calls) if each.id in capture.steps), None)
    if call is None:
        return
    steps = capture.steps[call.id]
    first, last = int(steps.step[0]), int(steps.step[-1] + steps.count[-1])
    number = max(1, min(most, (last - first) // FEWEST_STEPS))
    edges = [first + round((last - first) * place / number) for place in range(number + 1)]
    for start, end in itertools.pairwise(edges):
        part = replace(
            capture,
            steps=_only(capture.steps, call.id, start, end),
            inside=_only(capture.inside, call.id, start, end + 1),
            drained=_only(capture.drained, call.id, start, end),
        )
        try:
            yield end - 1, resolve(part).get(StepModel)
        except MissingEvidence:
            continue


def _only(found: Mapping[int, Columns], call: int, start: int, end: int) -> dict[int, Columns]:
    """Return the rows of one call from one step to another."""
    if call not in found:
        return {}
    rows = found[call]
    chosen = (rows.step >= start) & (rows.step < end)
    columns = {each.name: getattr(rows, each.name)[chosen] for each in fields(rows)}
    return {call: type(rows)(**columns)} if chosen.any() else {}

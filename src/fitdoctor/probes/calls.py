"""One call that is being observed, while it runs."""

from __future__ import annotations

import json
import math
from typing import Any

from fitdoctor.model import Site

MANY = 10
"""So many short calls from one line are a loop of them."""


class CapReached(BaseException):
    """Enough was observed: unwinds `fit` up to our own frame, never further."""


class ActiveCall:
    """One call of `fit`, `evaluate`, … or one hand-written loop, while it runs."""

    __slots__ = (
        "arguments", "begun_ns", "compiles", "count", "drawn", "end_ns", "epoch", "epoch_start_ns", "id", "in_loop",
        "info", "kind", "last_result", "model", "op_by_op", "parent", "shared", "site", "start_ns", "steady", "step",
        "step_start_ns", "steps_at_iterator", "steps_end_ns", "steps_per_row", "told", "validation_ns", "warmth",
    )  # fmt: skip

    def __init__(self, call_id: int, kind: str, site: Site | None, parent: int | None, start_ns: int) -> None:
        self.id = call_id
        self.kind = kind
        self.site = site
        self.parent = parent
        self.start_ns = start_ns
        self.begun_ns = start_ns
        """When it began for the last time: calls that share a row begin often."""
        self.end_ns: int | None = None
        self.info: dict[str, Any] = {}
        self.epoch = 0
        self.step = 0
        self.steps_per_row = 1
        self.steps_at_iterator = 0
        self.steady = 0
        self.count = 1
        self.compiles = 0
        self.in_loop = False
        self.op_by_op = False
        self.shared = False
        self.epoch_start_ns = start_ns
        self.step_start_ns = start_ns
        self.steps_end_ns: int | None = None
        self.validation_ns = 0
        self.told: float = math.inf
        """How many of the run's first steps have told their loss; as long as nobody asks, it is enough."""
        self.last_result: Any = None
        self.drawn: Any = None
        """Counts the epoch's steps (`rests.Drawn`), where they pass through our hands."""
        self.arguments: tuple[Any, ...] | None = None
        """What a `fit` that will be cut short was called with, or the jitted step of a loop with its arguments: the lab
        trains with it."""
        self.model: Any = None
        """The model of a short call that the lab may make again."""
        self.warmth = [0]
        """Steps its train function has run so far, shared by all calls that use the same function."""

    def row(self) -> tuple[Any, ...]:
        """Build the row of the `calls` table."""
        site = self.site
        return (
            self.id, self.kind, site and site.path, site and site.line, site and site.symbol, self.parent,
            self.start_ns, self.end_ns, self.count, json.dumps(self.info, default=str),
        )  # fmt: skip

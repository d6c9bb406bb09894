"""When a capped run has seen enough of a training."""

from __future__ import annotations

import ast
from pathlib import Path

from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.frames import Loop
from fitdoctor.probes.steps import Tracker

DEFAULT_STEPS = 200
DEFAULT_SECONDS = 8.0
"""Without `--steps`, steady steps are watched at least this long."""
FEWEST_STEPS = 30
ALIGNED = 32
"""The most steps per execution that a run is stopped between."""
SEEN_OF_SHORT = 0.7
"""A training too short for all that is stopped after this share of it, if it has as many steady steps as that."""
DEFAULT_BUDGET = 60.0
WATCHED = 0.5
"""Share of the budget that watching takes at most where experiments follow."""


def aligned(steps: int) -> int:
    """Return after how many steps in all to stop, whether they are run one by one, 8 or 32 at a time.

    The first three executions warm up.
    """
    return -(-(steps + 3 * ALIGNED) // ALIGNED) * ALIGNED


class Cap:
    """Decides after each step whether to stop."""

    def __init__(self, tracker: Tracker, steps: int | None, budget: float, script: str, aligned: bool = False) -> None:
        self.tracker = tracker
        self.steps = steps
        self.aligned = aligned
        self.budget = budget
        self.script = script
        self.experiments = False
        """Whether experiments follow, and need their part of the budget."""
        self._fits: int | None = None
        """How many calls of `fit` the user's files hold."""

    def hit(self, call: ActiveCall, now_ns: int) -> str | None:
        """Return what says that enough was seen ("steps" or "budget"), or None to go on."""
        tracker = self.tracker
        first = tracker.first_step_ns
        if first is None:
            # Only short calls without steps (predict in a loop): the budget alone decides.
            spent = (now_ns - call.start_ns) / 1e9 if tracker.calls_seen > 1 else 0.0
            return "budget" if spent >= self.budget else None
        spent = (now_ns - first) / 1e9
        if spent >= self._watching:
            return "budget"
        if self.aligned and call.kind == "fit":
            return "steps" if call.step >= aligned(self.steps or DEFAULT_STEPS) else None
        if self.steps is not None:
            return "steps" if tracker.steady_steps >= self.steps else None
        return "steps" if self._enough(call, spent) else None

    @property
    def _watching(self) -> float:
        """Seconds of the budget that watching may take."""
        return self.budget * (WATCHED if self.experiments else 1.0)

    def _enough(self, call: ActiveCall, spent: float) -> bool:
        """Without `--steps`: enough steps, long enough, and what happens between epochs if it comes in time."""
        tracker = self.tracker
        if self._nearly_over(call):
            return True
        if tracker.steady_steps < DEFAULT_STEPS or tracker.steady_ns < DEFAULT_SECONDS * 1e9:
            return False
        if call.kind == "fit":
            if tracker.calls_seen > 1 and call.steady < DEFAULT_STEPS:
                return False  # many short calls: watched across them until the budget is used
            if tracker.epochs_seen < 2 and call.info.get("epochs", 1) > 1:
                # Stay for the end of the epoch if it fits into the budget.
                per_step = tracker.steady_ns / 1e9 / tracker.steady_steps
                left = (call.info.get("steps_per_epoch") or 0) - call.step
                return not 0 < left * per_step < self._watching - spent
        return True

    def _nearly_over(self, call: ActiveCall) -> bool:
        """Tell whether a short training has so few steps left that it would end before experiments could be made.

        Only where no other one may follow: a short `fit` is often the first of two, and the second is what takes long.
        """
        planned = (call.info.get("steps_per_epoch") or 0) * (call.info.get("epochs") or 0)
        return (
            self.experiments
            and call.kind == "fit"
            and self.tracker.calls_seen <= 1
            and call.steady >= FEWEST_STEPS
            and 0 < planned * SEEN_OF_SHORT <= call.step
            and self._only_fit(call)
        )

    def _only_fit(self, call: ActiveCall) -> bool:
        """Tell whether the user's files speak of one `fit` alone."""
        if self._fits is None:
            files = {self.script, call.site.path if call.site is not None else ""}
            self._fits = sum(fits_in(file) for file in files if file.endswith(".py"))
        return self._fits == 1


def fits_in(path: str) -> int:
    """Count the calls of `fit` in a file; many where it cannot be read, or where one may run in a loop."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return 2
    loops = [node for node in ast.walk(tree) if isinstance(node, Loop)]
    return sum(map(_is_fit, ast.walk(tree))) + sum(_is_fit(node) for loop in loops for node in ast.walk(loop))


def _is_fit(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fit"

"""Whether steps take longer and longer, and which part of them: a slope with its confidence.

The slope is Theil's and Sen's, the median over all pairs, of the medians of a few long blocks: single slow steps do not
move it, and one jump in the middle leaves its low end near zero.  A machine that becomes slower makes every part of a
step longer alike, so a part grows by itself only as far as it grows more than the rest of the step does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Gap, Interval, Steps

if TYPE_CHECKING:
    from fitdoctor.facts.rows import Floats

BLOCKS = 16
"""At most: few and long, so that neighbours say little about each other."""
FEWEST_ROWS = 12
"""Of six blocks all pairs must rise, which chance does once in 720 times: three sigmas."""
SIGMAS = 3.0
"""How sure a slope must be: machines are shared, and many parts of many runs are looked at."""


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line through the blocks: seconds per step at the beginning, and more of them with every step."""

    start_s: float
    slope: Interval


@dataclass(frozen=True, slots=True)
class Growth:
    """How the part of a step that grows most did so while it was watched."""

    part: str
    """input, callbacks, sync, other, or work where the step runs op by op; empty where none grows"""
    part_start_s: float
    """Seconds of that part at the beginning."""
    own: Interval
    """Seconds per step by which it becomes longer with every step, less what a slower machine would do."""
    whole: Line
    """Of all of the step."""
    steps: float
    epochs: int

    @property
    def excess(self) -> Interval:
        """Seconds by which a step was longer for it, on average over what was watched."""
        return self.own.scale(self.steps / 2)


def establish(capture: Capture, training: Training) -> Growth:
    """Find the part that grows most; too few steps tell nothing."""
    import numpy as np

    every = rows.joined([capture.steps[call.id] for call in training.calls if call.id in capture.steps])
    mask = rows.steady(every) & ((every.flags & (Steps.CUT | Steps.RESTED)) == 0) & (every.count > 0)
    done = np.cumsum(every.count)[mask].astype(np.float64)
    chosen = rows.choose(every, mask)
    if rows.size(chosen) < FEWEST_ROWS:
        reason = f"{rows.size(chosen)} steps were watched one by one, fewer than the {FEWEST_ROWS} that a slope needs"
        raise MissingEvidence(Gap("how step times develop", reason, Gap.LONGER))
    wall = chosen.wall_ns / chosen.count / 1e9
    parts = _parts(chosen, op_by_op=_op_by_op(training))
    lines = {part: line(done, seconds) for part, seconds in parts.items()}
    whole = line(done, wall)
    watched = float(done[-1] - done[0])
    owns = {part: _own(lines[part], line(done, wall - seconds)) for part, seconds in parts.items()}
    part = max(owns, key=lambda each: owns[each].low)
    own, grows = owns[part], owns[part].low > 0
    return Growth(
        part=part if grows else "",
        part_start_s=lines[part].start_s,
        own=own if grows else Interval.exact(0.0),
        whole=whole,
        steps=watched,
        epochs=len({(call.id, int(each)) for call in training.calls for each in _epochs(capture, call.id)}),
    )


def _op_by_op(training: Training) -> bool:
    return bool(training.info.get("run_eagerly")) or training.info.get("compiled") is False


def _epochs(capture: Capture, call: int) -> list[int]:
    return list(set(capture.steps[call].epoch.tolist())) if call in capture.steps else []


def _parts(steps: Steps, *, op_by_op: bool) -> dict[str, Floats]:
    """Return seconds per step of what runs in Python: a compiled step does what it was compiled to do."""
    other = steps.wall_ns - steps.fetch_ns - steps.transfer_ns - steps.run_ns - steps.callbacks_ns - steps.sync_ns
    columns = {"input": steps.fetch_ns, "callbacks": steps.callbacks_ns, "sync": steps.sync_ns, "other": other}
    if op_by_op:
        columns["work"] = steps.run_ns
    return {part: column / steps.count / 1e9 for part, column in columns.items()}


def _own(part: Line, rest: Line) -> Interval:
    """Return the slope of a part beyond what the rest of the step grew by, at worst, in the middle, at best."""
    if rest.start_s <= 0:
        return Interval.exact(0.0)
    alike = [max(0.0, slope) / rest.start_s * max(0.0, part.start_s) for slope in (rest.slope.high, rest.slope.mid)]
    low, mid, high = part.slope.low - alike[0], part.slope.mid - alike[1], part.slope.high
    return Interval(min(low, mid), mid, max(mid, high))


def line(places: Any, values: Any) -> Line:
    """Return the line through the medians of blocks, with a slope that is this sure."""
    import numpy as np

    blocks = min(BLOCKS, len(places) // 2)
    x = np.array([float(np.median(each)) for each in np.array_split(places, blocks)])
    y = np.array([float(np.median(each)) for each in np.array_split(values, blocks)])
    first, second = np.triu_indices(blocks, k=1)
    slopes = np.sort((y[second] - y[first]) / (x[second] - x[first]))
    # The spread of Kendall's score tells which of the sorted slopes bound the true one.
    spread = SIGMAS * math.sqrt(blocks * (blocks - 1) * (2 * blocks + 5) / 18)
    count = len(slopes)
    low = max(0, math.floor((count - spread) / 2) - 1)
    high = min(count - 1, math.ceil((count + spread) / 2))
    middle = float(np.median(slopes))
    start = float(np.median(y - middle * x)) + middle * float(x[0])
    return Line(start, Interval(float(slopes[low]), middle, float(slopes[high])))

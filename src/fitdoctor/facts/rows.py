"""Rows of steps: joining, choosing, and averages that respect that neighbouring steps resemble each other."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fitdoctor.model import Interval, Steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]
    Floats = NDArray[np.float64]

RESAMPLES = 400
BLOCKS = 8
"""Few long blocks: simulated runs of 100 to 2000 steps whose neighbours correlate by up to 0.8 had their true
mean inside the interval 19 times in 20; with blocks of √n steps 18 times."""
SEED = 20240229
FIRST_STEPS = 2
"""The first steps of a training pay for allocation and cold caches, whatever else is compiled in them."""
FEWEST_UNSTEADY = 4
"""So many later steps that all compiled something are what the steps of this training are like."""
FAR, FEWEST_TO_CHOOSE = 5.0, 5
"""A comparison that is so many times off the middle of so many was disturbed."""
_COLUMNS = tuple(field.name for field in dataclasses.fields(Steps))
_TIMES = ("wall_ns", "fetch_ns", "transfer_ns", "run_ns", "callbacks_ns", "sync_ns")


def choose(steps: Steps, mask: Mask) -> Steps:
    """Keep the rows where the mask is true."""
    return Steps(*(getattr(steps, name)[mask] for name in _COLUMNS))


def joined(several: Sequence[Steps]) -> Steps:
    """Put the rows of several calls one after the other."""
    import numpy as np

    return Steps(*(np.concatenate([getattr(each, name) for each in several]) for name in _COLUMNS))


def size(steps: Steps) -> int:
    """Count the rows."""
    return int(steps.wall_ns.shape[0])


def warm(steps: Steps) -> Mask:
    """Mark the rows after warm-up.

    Where something is compiled in every single step, the steps without what compiling takes are all there is to see.
    """
    import numpy as np

    mask: Mask = (steps.flags & Steps.WARMUP) == 0
    if int(steps.count[mask].sum()) >= 2:
        return mask
    later: Mask = np.arange(size(steps)) >= FIRST_STEPS
    return later if int(later.sum()) >= FEWEST_UNSTEADY else mask


def steady(steps: Steps) -> Mask:
    """Mark the rows that tell how long a step takes: warmed up and not waited for by the probe.

    Rows that only wait for work launched earlier (`CUT`, no step of their own) belong to the steps before them.
    """
    warmed_up = warm(steps)
    mask: Mask = warmed_up & ((steps.flags & Steps.DRAINED) == 0)
    return mask if int(steps.count[mask].sum()) >= 2 else warmed_up


def observed(steps: Steps) -> Steps:
    """Keep the steady rows that also tell what a step went to.

    A row that only waits for work launched earlier (`CUT`) waits for steps that were left alone as well: as much of it
    is kept as of the steps before it were watched.
    """
    import numpy as np

    usable = steady(steps)
    mask: Mask = usable & ((steps.flags & Steps.RESTED) == 0)
    if int(steps.count[mask].sum()) < 2:
        return choose(steps, usable)
    kept = choose(steps, mask)
    if mask.sum() == usable.sum():
        return kept
    cut = (steps.flags & Steps.CUT) != 0
    seen, every = (np.cumsum(np.where(which, steps.count, 0)) for which in (mask, usable))
    ends = np.flatnonzero(cut)
    watched, total = (np.diff(sums[ends], prepend=0) for sums in (seen, every))
    share = np.ones(size(steps))
    share[ends] = np.divide(watched, total, out=np.zeros(len(ends)), where=total > 0)
    scaled = {name: (getattr(kept, name) * share[mask]).astype(np.int64) for name in _TIMES}
    return dataclasses.replace(kept, **scaled)


def until_cuts(columns: Mapping[str, Any], steps: Steps) -> tuple[dict[str, Any], Any]:
    """Add up the rows from one `CUT` to the next; return the columns, and the steps in each stretch.

    What an asynchronous backend took for the steps of a stretch stands in the row that waited for them: a row by itself
    tells of next to nothing, or of several steps.
    """
    import numpy as np

    cuts = np.flatnonzero(steps.flags & Steps.CUT)
    if len(cuts) < FEWEST_UNSTEADY:
        return dict(columns), steps.count
    begins = np.unique(np.concatenate([[0], cuts + 1]))
    begins = begins[begins < size(steps)]
    summed = {name: np.add.reduceat(np.asarray(each), begins) for name, each in columns.items()}
    return summed, np.add.reduceat(steps.count, begins)


def means(columns: Mapping[str, Any], weights: Any) -> dict[str, Interval]:
    """Return the mean per unit of weight of each column with the range that holds it 19 times in 20.

    A moving-block bootstrap: blocks of neighbouring rows are drawn, since a slow step is followed by slow
    steps. All columns share the drawn blocks.  The seed is fixed: the same capture gives the same report.
    """
    import numpy as np

    table: Floats = np.array([np.asarray(each, dtype=np.float64) for each in columns.values()])
    weight: Floats = np.asarray(weights, dtype=np.float64)
    rows = weight.shape[0]
    mids = table.sum(axis=1) / weight.sum()
    length = max(1, rows // BLOCKS)
    blocks = -(-rows // length)
    if blocks < 2:
        return {name: Interval(0.0, mid, 2 * mid) for name, mid in zip(columns, mids.tolist(), strict=True)}
    sums = _block_sums(np.vstack([table, weight]), length)
    draws = np.random.default_rng(SEED).integers(0, sums.shape[1], size=(RESAMPLES, blocks))
    drawn = sums[:, draws].sum(axis=2)
    # Of very few rows, chance may draw only those that have no step of their own.
    drawn = drawn[:, drawn[-1] > 0]
    resampled = drawn[:-1] / drawn[-1]
    # The percentile method is too narrow with few blocks.
    wider = 1 + 3 / (blocks - 1)
    centre = resampled.mean(axis=1)
    low, high = np.percentile(resampled, [2.5, 97.5], axis=1)
    lows, highs = mids - wider * (centre - low), mids + wider * (high - centre)
    return {
        name: Interval(max(0.0, min(mid, low)), mid, max(mid, high))
        for name, mid, low, high in zip(columns, mids.tolist(), lows.tolist(), highs.tolist(), strict=True)
    }


def _block_sums(table: Floats, length: int) -> Floats:
    import numpy as np

    total = np.concatenate([np.zeros((table.shape[0], 1)), table.cumsum(axis=1)], axis=1)
    sums: Floats = total[:, length:] - total[:, :-length]
    return sums


def paired(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Return `after` over `before`, each block compared with its neighbour: what else happens hits both alike.

    Two comparisons hold the truth between them every other time: their distance is added on both sides.  Of five and
    more, one in which a side took many times as long as in all others was disturbed, and is left out.
    """
    ratios = _undisturbed([late / max(early, 1e-9) for early, late in zip(before, after, strict=False)])
    found = median(ratios)
    if len(ratios) != 2:
        return found
    apart = max(ratios) - min(ratios)
    return Interval(max(0.0, found.low - apart), found.mid, found.high + apart)


def _undisturbed(ratios: list[float]) -> list[float]:
    middle = statistics.median(ratios) if ratios else 0.0
    kept = [each for each in ratios if middle / FAR <= each <= middle * FAR]
    return kept if len(ratios) >= FEWEST_TO_CHOOSE and len(kept) == len(ratios) - 1 else ratios


def median(values: Sequence[float] | Any) -> Interval:
    """Return the median with its bootstrap range."""
    import numpy as np

    array: Floats = np.asarray(values, dtype=np.float64)
    mid = float(np.median(array))
    if array.shape[0] < 2:
        return Interval(min(0.5 * mid, mid), mid, max(1.5 * mid, mid))
    draws = np.random.default_rng(SEED).integers(0, array.shape[0], size=(RESAMPLES, array.shape[0]))
    low, high = np.percentile(np.median(array[draws], axis=1), [2.5, 97.5])
    return Interval(min(mid, float(low)), mid, max(mid, float(high)))

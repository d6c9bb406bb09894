"""Whether both versions learn the same, by the loss that each had come to after as many steps.

The losses of the very first steps tell whether it began with the same batches: the weights are still those that the
script began with, so another loss is that of other data, or of other random numbers.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

ROUNDING = 1e-3
"""Losses that differ by no more than this share are the same but for rounding: another order of additions, XLA."""
SCATTERED = 1e-2
"""Losses of a training that came to the same every time, and differ by more than this now: it draws by chance now."""
ALIKE = 3.0
"""Means that differ by no more than so many standard errors are those of runs that differ by chance."""


@dataclass(frozen=True, slots=True)
class Learning:
    """What the losses say."""

    kind: str
    """identical, within rounding, alike, different, or not compared"""
    because: str
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()

    @property
    def lost(self) -> bool:
        """Whether the training came to a number before, and comes to none after: nobody consents to that."""
        before, after = (list(map(math.isfinite, each)) for each in (self.before, self.after))
        return any(before) and not all(after) and (all(before) or not any(after))


Losses = Mapping[tuple[int, float], float]
"""By epoch and step; the end of an epoch is its step infinity."""


def common(runs: Sequence[Losses]) -> tuple[int, float] | None:
    """Return the last place at which all runs have told their loss."""
    places = set.intersection(*(set(run) for run in runs)) if runs else set()
    return max(places, default=None)


def compare(before: Sequence[Losses], after: Sequence[Losses], *, incomparable: str = "") -> Learning:
    """Compare what each run had come to at the last place that they have in common.

    `incomparable` says why that says nothing; that there is no loss any more is seen wherever the runs stopped.
    """
    every = [*before, *after]
    if (last := ends(before, after)).lost:
        return last
    if incomparable:
        return Learning("not compared", incomparable)
    if not all(every):
        return Learning("not compared", "a run did not tell its loss: only fit keeps it")
    place = common(every)
    if place is None:
        told = ", ".join(f"epoch {epoch + 1} step {step:.0f}" for epoch, step in sorted({max(run) for run in every}))
        return Learning("not compared", f"the runs did not stop at the same step ({told})")
    one, other = ([run[place] for run in runs] for runs in (before, after))
    if not all(map(math.isfinite, (*one, *other))):
        why = "a loss is not a number"
        return Learning("different" if all(map(math.isfinite, one)) else "not compared", why, tuple(one), tuple(other))
    return Learning(*_judged(one, other), tuple(one), tuple(other))


def ends(before: Sequence[Losses], after: Sequence[Losses]) -> Learning:
    """Return what each run had come to where it stopped: of use where there is no loss any more."""
    return Learning("different", "a loss is not a number", *(_last(runs) for runs in (before, after)))


def begun(found: Learning, before: Sequence[Losses], after: Sequence[Losses]) -> Learning:
    """Add what the first steps say to what the end says: who begins with other batches does not learn the same."""
    if found.kind == "identical" or found.lost:
        return found
    place = common([*before, *after])
    if place is None:
        return found
    one, other = ([run[place] for run in runs] for runs in (before, after))
    if not all(map(math.isfinite, (*one, *other))) or max(_apart(one), _apart(other)) > ROUNDING:
        return found  # it begins differently every time: nothing was to be the same
    # The nearest of both, not the farthest: what scatters by nearly as much as that is no other either.
    if min(_apart(pair) for pair in itertools.product(one, other)) <= ROUNDING:
        return replace(found, because=f"{found.because}; the first batches give the same loss")
    here, there = (statistics.fmean(each) for each in (one, other))
    told = f"the first batches give another loss: {here:.6g} before, {there:.6g} after"
    if found.kind in ("alike", "different"):
        return replace(found, because=f"{found.because}; {told}")
    return replace(found, kind="different", because=told)


def _last(runs: Sequence[Losses]) -> tuple[float, ...]:
    return tuple(run[max(run)] for run in runs if run)


def passes(run: Losses, times: int) -> Losses:
    """Return the losses of a run as epochs that are so many times as long would have told them."""
    if times == 1:
        return run
    ends = {epoch: loss for (epoch, step), loss in run.items() if step == math.inf}
    found: dict[tuple[int, float], float] = {}
    for epoch in range(max(ends, default=-1) // times + 1):
        parts = range(epoch * times, (epoch + 1) * times)
        if all(part in ends for part in parts):
            found[epoch, math.inf] = statistics.fmean(ends[part] for part in parts)
    return found


def _judged(one: Sequence[float], other: Sequence[float]) -> tuple[str, str]:
    if len({*one, *other}) == 1:
        return "identical", f"all runs came to a loss of {one[0]:.6g}, bit for bit"
    here, there = statistics.fmean(one), statistics.fmean(other)
    apart = abs(here - there) / max(abs(here), abs(there), 1e-12)
    told = f"{here:.6g} before, {there:.6g} after"
    if len(one) > 1 and _apart(one) <= ROUNDING and _apart(other) > SCATTERED:
        each = f"{min(other):.6g} to {max(other):.6g}"
        return "different", f"all runs before come to a loss of {here:.6g}, those after to another every time: {each}"
    if apart <= ROUNDING:
        return "within rounding", f"losses differ by {apart:.1g} of their size ({told})"
    spread = [_variance(values) for values in (one, other)]
    error = math.sqrt(sum(variance / len(values) for variance, values in zip(spread, (one, other), strict=True)))
    if error > 0 and abs(here - there) <= ALIKE * error:
        return "alike", f"losses differ by chance from run to run, and no more between the versions ({told})"
    return "different", f"losses are others: {told}"


def _apart(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / max(*map(abs, values), 1e-12)


def _variance(values: Sequence[float]) -> float:
    return statistics.variance(values) if len(values) > 1 else 0.0

"""Two recorded runs side by side: whether they can be compared, how many times as long a step takes, what changed.

Each run tells its step time with the range of a moving-block bootstrap over its own steps (`facts/rows.py`).  The range
of their ratio sets the ends of both against each other, at their worst, and is wider still by what no single run can
show: how far two runs of the very same script are apart (`BETWEEN_RUNS`, or more where the lab saw the machine drift
more).  That is more careful than 19 times in 20, since a build that fails for noise is soon believed no more;
`docs/html-report.md` says how often it still happens.

Other programs on the same machine can make a step several times as long, and evenly so: no range shows that.  So a run
whose cores others took is not judged, and its range is as much wider as it may have been slowed down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from fitdoctor import units
from fitdoctor.errors import UsageError
from fitdoctor.facts.trials import BETWEEN_RUNS
from fitdoctor.model import PARTS, Interval, Report

HOW = (
    "the step times of both runs, each with the range of a moving-block bootstrap over its steps, their ends set "
    "against each other, and widened by {drift} for what two runs of the same script differ by"
)

CROWDED = 1.25
"""So many threads that want to run per core, and the machine has too much to do."""
OURS = 0.9
"""A training that keeps this share of the cores busy crowds the machine itself."""


@dataclass(frozen=True, slots=True)
class Change:
    """One number of both runs; None where a run does not tell."""

    name: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two runs show beside each other."""

    names: tuple[str, str]
    before: Report
    after: Report
    slowdown: Interval
    """Step time after, over before: above 1 it became slower."""
    how: str
    obstacles: tuple[str, ...]
    """Why a difference may come from something else."""
    notes: tuple[str, ...]
    disturbed: tuple[str, ...]
    """Which runs had to share their cores with other programs, and how much."""
    parts: tuple[Change, ...]
    """Milliseconds of a step."""
    whole: Change
    """Seconds of the whole training."""
    memory: tuple[Change, ...]
    """Bytes."""
    gone: tuple[str, ...]
    new: tuple[str, ...]
    kept: tuple[str, ...]
    """Rules: found before and no longer, found only now, found in both."""

    def slower_than(self, limit: float) -> bool:
        """Tell whether the slowdown lies above a limit with all of its range, and other programs are not to blame."""
        return not self.disturbed and self.slowdown.low > 1 + limit

    @property
    def verdict(self) -> str:
        """Say what the range allows to say."""
        if self.disturbed:
            return f"not judged, since other programs took the cores: a step took {_times(self.slowdown)} as long"
        if self.slowdown.low > 1:
            return f"slower: a step takes {_times(self.slowdown)} as long"
        if self.slowdown.high < 1:
            return f"faster: a step takes {_times(self.slowdown)} as long"
        return f"no difference that two runs can show: a step takes {_times(self.slowdown)} as long"


def _times(ratio: Interval) -> str:
    high = f"{ratio.high:.2f}" if math.isfinite(ratio.high) else "any"
    return f"{ratio.mid:.2f} ({ratio.low:.2f} to {high}) times"


def compare(before: Report, after: Report, names: tuple[str, str], *, anyway: bool = False) -> Comparison:
    """Put two reports beside each other; refuses what cannot be compared unless told to do it `anyway`."""
    steps = [_step(report, name) for report, name in zip((before, after), names, strict=True)]
    found = tuple(obstacles(before.run, after.run))
    if found and not anyway:
        raise UsageError(
            "these runs cannot be compared, they have not the same " + "; ".join(found),
            do="--anyway compares them all the same",
        )
    drift = max(BETWEEN_RUNS, *(float(report.run.get("drift") or 0.0) for report in (before, after)))
    rules = [list(dict.fromkeys(each.rule for each in report.findings)) for report in (before, after)]
    return Comparison(
        names=names,
        before=before,
        after=after,
        slowdown=_shared(slowdown(steps[0], steps[1], drift), before.run, after.run),
        how=HOW.format(drift=units.percent(math.expm1(drift))),
        obstacles=found,
        notes=tuple(_notes(before.run, after.run)),
        disturbed=tuple(_disturbed(before.run, after.run)),
        parts=tuple(_parts(before, after)),
        whole=Change("the whole training", *(_number(each.run.get("projected_s")) for each in (before, after))),
        memory=tuple(_memory(before.run, after.run)),
        gone=tuple(rule for rule in rules[0] if rule not in rules[1]),
        new=tuple(rule for rule in rules[1] if rule not in rules[0]),
        kept=tuple(rule for rule in rules[1] if rule in rules[0]),
    )


def _step(report: Report, name: str) -> Interval:
    step = report.run.get("step_ms")
    if isinstance(step, Mapping):
        step = Interval(step["low"], step["mid"], math.inf if step["high"] is None else step["high"])
    if not isinstance(step, Interval) or step.mid <= 0:
        raise UsageError(
            f"{name} has no steady step to compare: {report.headline}", do="let it run longer: --steps and --budget"
        )
    return step


def slowdown(before: Interval, after: Interval, drift: float) -> Interval:
    """Return `after` over `before`; `drift` is how far two runs of the same are apart, as a logarithm."""
    apart = math.exp(drift)
    high = after.high / before.low * apart if before.low > 0 else math.inf
    return Interval(after.low / before.high / apart, after.mid / before.mid, high)


def _shared(ratio: Interval, before: Mapping[str, Any], after: Mapping[str, Any]) -> Interval:
    """Widen a ratio by as much as other programs may have slowed either run down."""
    return Interval(ratio.low / _crowding(after), ratio.mid, ratio.high * _crowding(before))


def _crowding(run: Mapping[str, Any]) -> float:
    """Return how many threads wanted each core, where others took the cores; else 1."""
    host, cores = run.get("host") or {}, _number((run.get("machine") or {}).get("cores"))
    crowding, busy = _number(host.get("crowding")), _number(host.get("cores_busy"))
    if crowding is None or busy is None or not cores or crowding <= CROWDED or busy >= OURS * cores:
        return 1.0
    return crowding


def _disturbed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for word, run in (("before", before), ("after", after)):
        crowding = _crowding(run)
        if crowding > 1:
            busy, cores = run["host"]["cores_busy"], run["machine"]["cores"]
            yield f"{word}: {crowding:.1f} threads wanted each core, and the training had {busy:.1f} of {cores:g} cores"


# --- what must be the same ----------------------------------------------------------------------------


def obstacles(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is not the same and would make a difference by itself."""
    for name, one, other in _same(before, after):
        if one is not None and other is not None and one != other:
            yield f"{name}: {_word(one)} before, {_word(other)} after"


def _same(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    named = [
        ("kind of training", "kind"), ("backend", "backend"), ("batch size", "batch_size"),
        ("number of weights", "parameters"), ("layers", "layers"), ("number of processes", "ranks"),
    ]  # fmt: skip
    scripts = [PurePath(str(run["script"])).name if run.get("script") else None for run in (before, after)]
    yield "script", scripts[0], scripts[1]
    for name, key in named:
        yield name, before.get(key), after.get(key)
    ours, theirs = (run.get("machine") or {} for run in (before, after))
    for name, key in (("GPUs", "gpus"), ("processor", "cpu"), ("cores", "cores")):
        yield name, ours.get(key), theirs.get(key)


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{count} {kind}" for kind, count in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _notes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield what else is not the same: it may be the very change, or not."""
    ours, theirs = (run.get("versions") or {} for run in (before, after))
    for name in [*ours, *(each for each in theirs if each not in ours)]:
        if ours.get(name) != theirs.get(name):
            yield f"{name} {ours.get(name, 'not there')} before, {theirs.get(name, 'not there')} after"
    arguments = [list(run.get("command") or ())[1:] for run in (before, after)]
    if arguments[0] != arguments[1]:
        told = [" ".join(map(str, each)) or "none" for each in arguments]
        yield f"arguments of the script: {told[0]} before, {told[1]} after"
    if before.get("mode") != after.get("mode"):
        yield f"run {before.get('mode')} before, {after.get('mode')} after"
    if before.get("capture") and before.get("capture") == after.get("capture"):
        yield "both are the same capture"
    unknown = [name for name, one, other in _same(before, after) if (one is None) != (other is None)]
    if unknown:
        yield f"only one of both tells its {', '.join(unknown)}"


# --- what changed -------------------------------------------------------------------------------------


def _parts(before: Report, after: Report) -> Iterator[Change]:
    for part in [*PARTS, *(each for each in before.breakdown if each not in PARTS)]:
        one, other = before.breakdown.get(part, 0.0), after.breakdown.get(part, 0.0)
        if one > 0 or other > 0:
            yield Change(part, one, other)


def _memory(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    ours, theirs = (run.get("memory") or {} for run in (before, after))
    for name, key in (("memory, at most", "resident_bytes"), ("GPU memory, at most", "gpu_bytes")):
        one, other = _number(ours.get(key)), _number(theirs.get(key))
        if one is not None or other is not None:
            yield Change(name, one, other)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

"""What was traced or compiled again after the first steps of a training, why, and how that goes on."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor.facts import rows
from fitdoctor.model import Call, Capture, Compile, Interval, Site, Steps

FEWEST = 4
"""Fewer times than this are no habit."""
_OF_KERAS = frozenset({"multi_step_on_iterator", "one_step_on_data"})
"""Keras's own train function on TensorFlow; what else it traces belongs to each call of `fit`."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Again:
    """One function that was traced or compiled again, for one kind of reason."""

    name: str
    site: Site | None
    """Where it is defined."""
    line: Site | None
    """Where the script called it."""
    cause: str
    """value, object, shape, dtype, structure: what of an argument was new; rebuilt: nothing was, but the function
    itself; unknown"""
    count: int
    seconds: float
    """Of all of them, with what the steps took longer in which it happened."""
    growth: Interval
    """How many times as much it will have been at the end of the training."""
    by_call: Mapping[int, float]
    spread: float = 0.0
    """By what share of it the mean of one may be off, 19 times in 20."""
    argument: str = ""
    was: str = ""
    now: str = ""
    """The last time it changed."""
    numbers: tuple[float, ...] = ()
    """What the argument's only changing number was each time, where there is one."""
    always: bool = False
    """No step went without: what a step takes longer for it, beside the tracing itself, is not known."""
    mostly: bool = False
    """Most steps did not go without: the others may have had to wait for what was launched late."""

    @property
    def each_s(self) -> float:
        """Seconds of one."""
        return self.seconds / self.count

    @property
    def projected_s(self) -> float:
        """Seconds in the whole training."""
        return self.seconds * self.growth.mid


@dataclass(frozen=True, slots=True)
class _Time:
    """One time of it."""

    entry: Compile
    seconds: float
    cause: str
    place: float
    """Steps that were done."""

    @property
    def change(self) -> Mapping[str, str]:
        changed = self.entry.detail.get("changed") or [{}]
        first: Mapping[str, str] = changed[0]
        return first


def found(capture: Capture, seen: Sequence[tuple[Call, Steps]], planned: float) -> tuple[Again, ...]:
    """Return what was compiled again and again in these calls, the costliest first; `planned` steps are made in all.

    A few times (the last, smaller batch, a switch with three positions) are what compiling once means.
    """
    every = rows.joined([steps for _, steps in seen])
    if rows.size(every) <= rows.FIRST_STEPS:
        return ()
    groups: dict[tuple[Any, ...], list[_Time]] = {}
    for key, time in _times(capture, [call for call, _ in seen], every):
        groups.setdefault((*key, time.cause), []).append(time)
    watched = float(every.count.sum())
    warm = (every.flags & Steps.WARMUP) != 0
    many = float(every.count[warm].sum()) > watched / 2
    anew = _begins_anew([call for call, _ in seen])
    made = [
        _again(times, watched, planned, anew, always=not _steady(every), mostly=many)
        for times in groups.values()
        if len(times) >= FEWEST
    ]
    return tuple(sorted(made, key=lambda each: -each.projected_s))


def _times(capture: Capture, calls: Sequence[Call], every: Steps) -> Iterator[tuple[tuple[Any, ...], _Time]]:
    """Yield each time, with which function it was."""
    import numpy as np

    begin = int(every.start_ns[rows.FIRST_STEPS])
    end = int(every.start_ns[-1] + every.wall_ns[-1])
    done = np.cumsum(every.count)
    longer = _longer(every)
    models = {call.id: call.info.get("model_number") for call in capture.calls}
    ids = {call.id for call in calls}
    known: set[tuple[Any, ...]] = set()
    for entry, seconds in whole_compilations(capture.compiles):
        key = (entry.name, str(entry.site or _line(entry)), models.get(entry.call or 0))
        earlier = key in known
        known.add(key)
        cause = _cause(entry)
        late = entry.call in ids and begin < entry.start_ns < end
        if cause is None or not earlier or not late:
            continue
        row = max(0, int(np.searchsorted(every.start_ns, entry.start_ns, side="right")) - 1)
        yield key, _Time(entry, seconds + longer.pop(row, 0.0), cause, float(done[row]))


def whole_compilations(compiles: Sequence[Compile]) -> Iterator[tuple[Compile, float]]:
    """Yield traces, or compilations together with the tracing and lowering before them."""
    whole = any(each.kind == "compile" for each in compiles)
    before = 0.0
    for each in sorted(compiles, key=lambda each: each.start_ns):
        seconds = each.duration_ns / 1e9
        if each.kind == "compile":
            yield each, before + seconds
            before = 0.0
        elif whole and not each.detail:
            before += seconds
        elif each.site is not None or each.name in _OF_KERAS:
            yield each, seconds


def _cause(entry: Compile) -> str | None:
    detail = entry.detail
    if "first" not in detail:
        return "unknown"
    if "changed" not in detail:
        # torch tells that it compiled the same lines again, not why.
        return None if detail["first"] else "shape"
    if detail["first"]:
        return "rebuilt"
    # With nothing changed, the function made its variables when it was first traced, and is traced again without.
    return str(detail["changed"][0]["kind"]) if detail["changed"] else None


def _line(entry: Compile) -> Site | None:
    at = entry.detail.get("line")
    return Site(str(at[0]), int(at[1])) if at else None


def _longer(every: Steps) -> dict[int, float]:
    """Return by how many seconds the steps in which something was compiled took longer than a steady one, by row."""
    if not _steady(every):
        return {}
    warm = (every.flags & Steps.WARMUP) != 0
    steady = rows.choose(every, ~warm)
    each = float(steady.wall_ns.sum()) / float(steady.count.sum())
    return {
        row: max(0.0, float(every.wall_ns[row]) - each * float(every.count[row])) / 1e9
        for row in range(rows.FIRST_STEPS, rows.size(every))
        if warm[row]
    }


def _steady(every: Steps) -> bool:
    """Tell whether there were steps in which nothing was compiled."""
    return int(rows.choose(every, (every.flags & Steps.WARMUP) == 0).count.sum()) >= 2


def _begins_anew(calls: Sequence[Call]) -> float | None:
    """Return the steps after which data that is said not to be shuffled begins anew."""
    infos = [call.info for call in calls]
    if any(info.get("shuffled") is not False or not info.get("steps_per_epoch") for info in infos):
        return None
    return max(float(info["steps_per_epoch"]) for info in infos)


def _again(
    times: Sequence[_Time], watched: float, planned: float, anew: float | None, *, always: bool, mostly: bool
) -> Again:
    last = times[-1].entry
    argument = Counter(each.change.get("argument", "") for each in times).most_common(1)[0][0]
    told = [each.change for each in times if each.change.get("argument", "") == argument]
    numbers = _numbers([each.get("now", "") for each in told])
    by_call: dict[int, float] = {}
    for each in times:
        by_call[each.entry.call or 0] = by_call.get(each.entry.call or 0, 0.0) + each.seconds
    cause = times[-1].cause
    return Again(
        name=last.name,
        site=last.site,
        line=_line(last),
        cause=cause,
        count=len(times),
        seconds=sum(each.seconds for each in times),
        growth=growth([each.place for each in times], watched, planned, numbers, endless=cause == "rebuilt", anew=anew),
        by_call=by_call,
        spread=_spread([each.seconds for each in times]),
        argument=argument,
        was=told[-1].get("was", ""),
        now=told[-1].get("now", ""),
        numbers=numbers,
        always=always,
        mostly=mostly,
    )


def _spread(seconds: Sequence[float]) -> float:
    mean = statistics.fmean(seconds)
    if len(seconds) < 2 or mean <= 0:
        return 1.0
    return min(1.0, 2 * statistics.stdev(seconds) / math.sqrt(len(seconds)) / mean)


def _numbers(values: Sequence[str]) -> tuple[float, ...]:
    """Return the only number in which descriptions differ; empty where there is none, or more than one."""
    split = [_NUMBER.findall(value) for value in values]
    if len(split) < 2 or len({len(each) for each in split}) > 1:
        return ()
    columns = [column for column in zip(*split, strict=True) if len(set(column)) > 1]
    return tuple(map(float, columns[0])) if len(columns) == 1 else ()


def growth(
    places: Sequence[float],
    watched: float,
    planned: float,
    numbers: Sequence[float] = (),
    *,
    endless: bool = False,
    anew: float | None = None,
) -> Interval:
    """Return how many times as often something happens in the whole training as it was seen to.

    It becomes rarer as fewer possibilities are left: from the first half of what was watched to all of it, it grew by
    some power, which holds for the rest (Heaps' law).  A number that always rises or always falls never comes again, as
    does what the script makes anew on every turn (`endless`): then at worst the power is smaller by chance.  What comes
    and goes is taken to be drawn from as many possibilities as would have shown so many by now, and no more often after
    `anew` steps, when data that nobody shuffles begins anew.  Of whole numbers there are at most as many as between the
    smallest and the largest; at best all were seen.
    """
    ahead = max(1.0, planned / watched) if watched > 0 else 1.0
    if len(places) < FEWEST or ahead <= 1:
        return Interval(1.0, 1.0, ahead)
    late = sum(place > watched / 2 for place in places)
    early = max(1, len(places) - late)
    mid = ahead ** min(1.0, math.log2(1 + late / early))
    least = max(0.0, late - 2 * math.sqrt(late)) / (early + 2 * math.sqrt(early))
    low = ahead ** min(1.0, math.log2(1 + least))
    if endless or _one_way(numbers):
        return Interval(min(low, mid), mid, max(mid, ahead))
    most = min(ahead, _room(numbers))
    mid = min(mid, most, _drawn(len(places) + 1, watched, min(planned, anew or planned)))
    return Interval(1.0, mid, max(mid, most))


def _drawn(kinds: int, draws: float, later: float) -> float:
    """Return how many times as many kinds so many draws will have shown `later`, if all are as likely as each other."""
    if kinds >= draws:
        return math.inf
    low, high = float(kinds), 1e9
    for _ in range(100):
        there_are = math.sqrt(low * high)
        if there_are * -math.expm1(-draws / there_are) < kinds:
            low = there_are
        else:
            high = there_are
    return max(1.0, low * -math.expm1(-later / low) / kinds)


def _one_way(numbers: Sequence[float]) -> bool:
    steps = [after - before for before, after in itertools.pairwise(numbers)]
    return len(numbers) >= FEWEST and (all(step > 0 for step in steps) or all(step < 0 for step in steps))


def _room(numbers: Sequence[float]) -> float:
    """Return how many times as many whole numbers there may be as were seen."""
    if not numbers or any(each != int(each) for each in numbers):
        return math.inf
    seen = len(numbers)
    # As far as the largest of so many lies below the largest there is, and the same at the other end.
    span = (max(numbers) - min(numbers)) * (1 + 2 / seen) + 1
    return max(1.0, span / seen)

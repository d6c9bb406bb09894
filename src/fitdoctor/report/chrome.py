"""A capture as a trace for Perfetto and chrome://tracing: the Trace Event Format, written row by row.

One track each for the calls, the epochs with their validation, the steps with their parts, and the compilations; the
machine's counters below.  Two things a capture knows only as sums, not when they were: the phases of the run and the
hooks of the callbacks.  They have tracks of their own which say so, laid end to end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fitdoctor.capture import store
from fitdoctor.model import PHASES, Steps

Rows = Callable[[str], Iterable[Any]]
Event = dict[str, Any]

RUN = 1
"""The process that everything belongs to."""
CALLS, EPOCHS, STEPS, COMPILES, PHASE_SUMS, CALLBACK_SUMS = 100, 200, 300, 400, 500, 600
"""Numbers of the first track of each kind; what would overlap goes to the next."""
_NAMES = {
    CALLS: "calls",
    EPOCHS: "epochs",
    STEPS: "steps",
    COMPILES: "tracing and compiling",
    PHASE_SUMS: "phases of the run (sums, end to end)",
    CALLBACK_SUMS: "callbacks (sums per hook, end to end)",
}
_PARTS = ("waiting for input", "copying to the device", "train function", "reading results", "callbacks")
"""What a row of the steps tells apart, in the order in which it mostly happens."""


@dataclass(frozen=True)
class Slice:
    """Something that takes time on a track."""

    track: int
    name: str
    start_ns: int
    ns: int
    args: Mapping[str, Any]


def pieces(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the trace of a capture as JSON text, piece by piece; needs little memory however long the run was."""
    with store.scan(path) as rows:
        try:
            yield from _pieces(path, rows)
        except (ValueError, KeyError, TypeError) as error:
            raise store.damaged(path, error) from error


def _pieces(path: str | os.PathLike[str], rows: Rows) -> Iterator[str]:
    meta = {key: json.loads(value) for key, value in rows("SELECT key, value FROM meta")}
    store.check_schema(meta, path)
    zero = _zero(meta, rows)
    about = {name: meta.get(name) for name in ("fitdoctor", "script", "mode", "backend", "versions", "started")}
    yield f'{{"displayTimeUnit": "ms", "otherData": {_dumps(about)}, "traceEvents": [\n'
    first = True
    for event in _events(meta, rows, zero):
        yield ("" if first else ",\n") + _dumps(event)
        first = False
    yield "\n]}\n"


def _dumps(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:  # a number that is not finite is not known
        return json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None))


def _events(meta: Mapping[str, Any], rows: Rows, zero: int) -> Iterator[Event]:
    script = str(meta.get("script") or "run")
    yield {"ph": "M", "pid": RUN, "name": "process_name", "args": {"name": os.path.basename(script) or script}}
    named: set[int] = set()
    for source in (_calls, _epochs, _steps, _compiles, _callbacks):
        for each in source(rows):
            yield from _named(each.track, named)
            yield _complete(each, zero)
    for each in _phases(meta, zero):
        yield from _named(each.track, named)
        yield _complete(each, zero)
    yield from _inside(rows, zero)
    yield from _host(rows, zero)


def _complete(each: Slice, zero: int) -> Event:
    return {
        "ph": "X", "pid": RUN, "tid": each.track, "name": each.name, "ts": (each.start_ns - zero) / 1000,
        "dur": each.ns / 1000, "args": dict(each.args),
    }  # fmt: skip


def _named(track: int, named: set[int]) -> Iterator[Event]:
    """Name a track when it is first used."""
    if track in named:
        return
    named.add(track)
    kind = track - track % 100
    name = _NAMES[kind] + (f" ({track - kind + 1})" if track > kind else "")
    yield {"ph": "M", "pid": RUN, "tid": track, "name": "thread_name", "args": {"name": name}}
    yield {"ph": "M", "pid": RUN, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}}


def _zero(meta: Mapping[str, Any], rows: Rows) -> int:
    """Return when the process began, on the clock of the capture; in older ones the first thing that was seen."""
    start = meta.get("start_ns")
    if isinstance(start, int):
        return start
    columns = ("calls", "start_ns"), ("steps", "start_ns"), ("compiles", "start_ns"), ("host", "t_ns")
    seen = [value for table, name in columns for (value,) in rows(f"SELECT min({name}) FROM {table}")]  # noqa: S608
    return min((value for value in seen if value is not None), default=0)


class Lanes:
    """Gives each slice of a kind a track on which it lies beside or inside of the others, never across."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._ends: list[list[int]] = []
        """Per track, the ends of what is open, the innermost last."""

    def track(self, start: int, end: int) -> int:
        """Return the track of a slice; slices come in the order of their starts."""
        for place, ends in enumerate(self._ends):
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                return self.first + place
        if len(self._ends) < 99:
            self._ends.append([])
        self._ends[-1].append(end)
        return self.first + len(self._ends) - 1


def _calls(rows: Rows) -> Iterator[Slice]:
    lanes = Lanes(CALLS)
    query = """SELECT id, kind, path, line, start_ns,
        coalesce(end_ns, (SELECT max(start_ns + wall_ns) FROM steps WHERE call = id), start_ns), count, end_ns IS NULL
        FROM calls ORDER BY start_ns, 6 DESC"""
    for id_, kind, path, line, start, end, count, open_ in rows(query):
        site = f"{path}:{line}" if path and line else None
        args = {"call": id_, "site": site, "calls": count, "unfinished": bool(open_)}
        yield Slice(lanes.track(start, end), kind, start, max(end - start, 0), args)


def _epochs(rows: Rows) -> Iterator[Slice]:
    lanes = Lanes(EPOCHS)
    query = """SELECT e.call, e.epoch, e.start_ns, e.steps_end_ns, e.validation_ns,
        coalesce(e.end_ns, e.steps_end_ns,
                 (SELECT max(s.start_ns + s.wall_ns) FROM steps s WHERE s.call = e.call AND s.epoch = e.epoch),
                 e.start_ns)
        FROM epochs e ORDER BY e.start_ns"""
    for call, epoch, start, steps_end, validation, end in rows(query):
        end = max(end, start)
        track = lanes.track(start, end)
        yield Slice(track, f"epoch {epoch + 1}", start, end - start, {"call": call})
        if validation and steps_end is not None:
            ns = min(validation, end - steps_end)
            yield Slice(track, "validation", steps_end, max(ns, 0), {"seconds": validation / 1e9})


def _steps(rows: Rows) -> Iterator[Slice]:
    """Yield the steps of each call in their order, and what each went to."""
    tracks: dict[int, int] = {}
    ends: list[int] = []
    # Calls at the same time get tracks of their own: inside of another's steps theirs would look like parts.
    spans = "SELECT call, min(start_ns), max(start_ns + wall_ns) FROM steps GROUP BY call ORDER BY 2"
    for call, start, end in rows(spans):
        lane = next((place for place, until in enumerate(ends) if until <= start), len(ends))
        ends[lane : lane + 1] = [end]
        tracks[call] = STEPS + min(lane, 99)
    before: tuple[Any, ...] | None = None
    for row in rows("SELECT * FROM steps ORDER BY call, start_ns, rowid"):
        if before is not None:
            yield from _step(before, tracks[before[0]], row[4] if row[0] == before[0] else None)
        before = row
    if before is not None:
        yield from _step(before, tracks[before[0]], None)


def _step(row: tuple[Any, ...], track: int, until: int | None) -> Iterator[Slice]:
    call, epoch, step, count, start, wall, fetch, transfer, run, callbacks, sync, flags = row
    # The clock of a step leaves out what watching cost, so that two rows may touch: the picture ends with the next.
    ns = wall if until is None else max(min(wall, until - start), 0)
    words = [
        word
        for bit, word in (
            (Steps.WARMUP, "warm-up"), (Steps.DRAINED, "waited for the device"), (Steps.CUT, "waiting only"),
            (Steps.RESTED, "counted only"),
        )
        if flags & bit
    ]  # fmt: skip
    name = f"step {step}" if count <= 1 else f"steps {step} to {step + count - 1}"
    args = {"call": call, "epoch": epoch + 1, "steps": count, "wall_ms": wall / 1e6}
    yield Slice(track, name, start, ns, {**args, "kind": ", ".join(words)} if words else args)
    at, end = start, start + ns
    for part, took in zip(_PARTS, (fetch, transfer, run, sync, callbacks), strict=True):
        shown = min(took, end - at)
        if shown > 0:
            yield Slice(track, part, at, shown, {})
            at += shown


def _compiles(rows: Rows) -> Iterator[Slice]:
    lanes = Lanes(COMPILES)
    query = "SELECT call, kind, name, start_ns, duration_ns FROM compiles ORDER BY start_ns, duration_ns DESC"
    for call, kind, name, start, ns in rows(query):
        yield Slice(lanes.track(start, start + ns), f"{kind} {name}", start, ns, {"call": call})


def _callbacks(rows: Rows) -> Iterator[Slice]:
    """Yield what each hook took in all, from the start of its call on."""
    at = 0
    query = """SELECT c.call, c.name, c.hook, c.threaded, c.count, c.total_ns, coalesce(calls.start_ns, 0)
        FROM callbacks c LEFT JOIN calls ON calls.id = c.call ORDER BY 7, c.call, c.total_ns DESC"""
    for call, name, hook, threaded, count, total, start in rows(query):
        at = max(at, start)
        args = {"call": call, "times": count, "beside the steps": bool(threaded)}
        yield Slice(CALLBACK_SUMS, f"{name}.{hook}", at, total, args)
        at += total


def _phases(meta: Mapping[str, Any], zero: int) -> Iterator[Slice]:
    account = meta.get("account")
    found = account if isinstance(account, dict) else {}
    at = zero
    for phase in [*(name for name in PHASES if name in found), *(name for name in found if name not in PHASES)]:
        ns = round(found[phase] * 1e9)
        if ns > 0:
            yield Slice(PHASE_SUMS, phase, at, ns, {"seconds": found[phase]})
            at += ns


# --- counters -------------------------------------------------------------------------------------------


def _counter(name: str, at_ns: int, zero: int, **values: float) -> Event:
    return {"ph": "C", "pid": RUN, "name": name, "ts": (at_ns - zero) / 1000, "args": values}


def _inside(rows: Rows, zero: int) -> Iterator[Event]:
    """Yield what the clocks inside of a compiled step say, per step between two readings."""
    query = """SELECT i.call, i.count, i.wait_ns, i.compute_ns, s.start_ns FROM inside i
        JOIN steps s ON s.call = i.call AND s.step = i.step ORDER BY i.call, i.rowid"""
    before: tuple[Any, ...] | None = None
    for row in rows(query):
        if before is not None and before[0] == row[0] and row[1] > before[1]:
            steps = row[1] - before[1]
            waits, computes = ((row[i] - before[i]) / steps / 1e6 for i in (2, 3))
            yield _counter("inside the step (ms)", row[4], zero, **{"waiting for input": waits, "computing": computes})
        before = row


def _host(rows: Rows, zero: int) -> Iterator[Event]:
    """Yield the machine's counters; what a sample tells as a sum becomes what it grew by per second."""
    before: tuple[int, Mapping[str, Any]] | None = None
    for at, data in rows("SELECT t_ns, data FROM host ORDER BY t_ns"):
        now = json.loads(data)
        for name, unit, key in (("memory of the process", "MiB", "rss"), ("memory left", "MiB", "memory_available")):
            if _number(now.get(key)):
                yield _counter(name, at, zero, **{unit: now[key] / 2**20})
        if before is not None and at > before[0]:
            yield from _rates(before[1], now, (at - before[0]) / 1e9, at, zero)
        gil = now.get("gil")
        if isinstance(gil, dict) and gil.get("looks"):
            yield _counter("GIL held", at, zero, **{"%": 100 * gil["held"] / gil["looks"]})
        for gpu in now.get("gpus") or ():
            if _number(gpu.get("utilisation")):
                yield _counter(f"GPU {gpu.get('index', 0)}", at, zero, **{"%": 100 * gpu["utilisation"]})
            if _number(gpu.get("memory_used")):
                used = gpu["memory_used"] / 2**20
                yield _counter(f"GPU {gpu.get('index', 0)} memory", at, zero, MiB=used)
        before = (at, now)


def _rates(was: Mapping[str, Any], now: Mapping[str, Any], seconds: float, at: int, zero: int) -> Iterator[Event]:
    def grown(*keys: str) -> float | None:
        both = [(was[key], now[key]) for key in keys if _number(was.get(key)) and _number(now.get(key))]
        return max(sum(after - before for before, after in both), 0.0) / seconds if both else None

    for name, unit, keys, factor in (
        ("CPU cores busy", "cores", ("cpu_user", "cpu_system", "children_cpu", "children_ended_cpu"), 1.0),
        ("disk reads", "MiB/s", ("disk_read",), 2.0**-20),
    ):
        rate = grown(*keys)
        if rate is not None:
            yield _counter(name, at, zero, **{unit: rate * factor})


def _number(value: Any) -> bool:
    return isinstance(value, int | float)

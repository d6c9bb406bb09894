"""What the probes write to while the training runs: cheap appends now, a file later.

A background thread hands the buffered rows to a sink about once a second.  Nothing here knows what a sink is; the
capture stage provides one.  If the sink fails (a full disk) the recorder lets go: training goes on, a gap is kept.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fitdoctor.model import Gap, Steps
from fitdoctor.probes.account import Account

TICK_SECONDS = 1.0
EARLY_TICKS, SETTLED_TICKS = 15, 5
"""Every tick writes what was seen; in a run that is watched to its end, after a while, every fifth."""
FULL_ROWS = 60_000
"""After so many rows of one call, several steps share a row: a week of training still fits in the file."""


class Sink(Protocol):
    """Where rows go."""

    def write(self, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Append rows, table by table."""


class Recorder:
    """The buffers of one observed process."""

    def __init__(self, sink: Sink, start_ns: int, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.sink = sink
        self.clock = clock
        self.account = Account(start_ns, clock)
        self.owner = threading.get_ident()
        """The training thread: the only one whose time is accounted."""
        self.live = True
        self.samplers: list[Callable[[], Mapping[str, Any]]] = []
        """Called by the background thread at each flush; what they return becomes a host sample."""
        self.on_flush: list[Callable[[], None]] = []
        self.on_tick: list[Callable[[], None]] = []
        """Called once a second by the background thread."""
        self.settles = False
        """Whether a long run is written less often: nobody waits for what it says."""
        self._rows: dict[str, list[Sequence[Any]]] = {}
        self._steps: list[tuple[int, ...]] = []
        self._replace: dict[str, dict[Any, Sequence[Any]]] = {}
        self._meta: dict[str, Any] = {}
        self._gaps: dict[tuple[str, str], Gap] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._thin: dict[int, _Thinner] = {}

    # --- what probes call -------------------------------------------------------------------------

    def step(self, row: tuple[int, ...]) -> None:
        """Keep one row of the steps table, its columns in order."""
        self._steps.append(row)

    def add(self, table: str, row: Sequence[Any]) -> None:
        """Keep one row of a table that only grows."""
        with self._lock:
            self._rows.setdefault(table, []).append(row)

    def put(self, table: str, key: Any, row: Sequence[Any]) -> None:
        """Keep the newest version of a row."""
        with self._lock:
            self._replace.setdefault(table, {})[key] = row

    def meta(self, **values: Any) -> None:
        """Keep facts about the run as a whole."""
        with self._lock:
            self._meta.update(values)

    def gap(self, what: str, reason: str, remedy: str) -> None:
        """Say what could not be observed; the same gap is kept once."""
        with self._lock:
            if (what, reason) not in self._gaps:
                self._gaps[what, reason] = Gap(what, reason, remedy)
                self._rows.setdefault("gaps", []).append((what, reason, remedy))

    def fail(self, probe: str, error: BaseException) -> None:
        """Let go: a probe broke.  The training goes on unobserved from here."""
        self.live = False
        self.gap(
            f"everything after {probe} stopped",
            f"the probe {probe} failed: {type(error).__name__}: {error}",
            "the training itself was not affected; please report this as a bug of fitdoctor",
        )

    def mine(self) -> bool:
        """Tell whether the calling thread is the observed one and observation is on."""
        return self.live and threading.get_ident() == self.owner

    # --- the background ---------------------------------------------------------------------------

    def start(self) -> None:
        """Begin flushing in the background."""
        self._thread = threading.Thread(target=self._loop, name="fitdoctor", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        ticks = 0
        while not self._stop.wait(TICK_SECONDS):
            ticks += 1
            for hook in self.on_tick:
                with contextlib.suppress(Exception):
                    hook()
            if self.settles and ticks > EARLY_TICKS and ticks % SETTLED_TICKS:
                continue
            for sampler in self.samplers:
                try:
                    self.add("host", (self.clock(), json.dumps(sampler())))
                except Exception as error:
                    self.samplers = [s for s in self.samplers if s is not sampler]
                    self.gap(
                        "the host's signals",
                        f"{type(error).__name__}: {error}",
                        "please report this as a bug",
                    )
            self.flush()

    def flush(self) -> None:
        """Hand everything buffered to the sink."""
        with self._writing:
            for hook in self.on_flush:
                with contextlib.suppress(Exception):
                    hook()
            with self._lock:
                # Copy, then delete: a row appended meanwhile by the training thread is never lost.
                steps = self._steps[:]
                del self._steps[: len(steps)]
                rows: dict[str, Sequence[Sequence[Any]]] = {**self._rows}
                for table, replaced in self._replace.items():
                    rows[table] = [*rows.get(table, ()), *replaced.values()]
                if self._meta:
                    rows["meta"] = [(key, json.dumps(value)) for key, value in self._meta.items()]
                self._rows, self._replace, self._meta = {}, {}, {}
            if steps:
                rows["steps"] = self._thinned(steps)
            if not rows:
                return
            try:
                self.sink.write(rows)
            except Exception as error:
                self._lose(error)

    def _lose(self, error: Exception) -> None:
        self.sink = Nowhere()
        self.live = False
        self._gaps["the capture", str(error)] = Gap("the capture", str(error), "")

    @property
    def lost(self) -> Gap | None:
        """Why the capture ends early, if it does."""
        return next((gap for (what, _), gap in self._gaps.items() if what == "the capture"), None)

    def _thinned(self, steps: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        out: list[tuple[int, ...]] = []
        for row in steps:
            thinner = self._thin.get(row[0])
            if thinner is None:
                thinner = self._thin[row[0]] = _Thinner()
            out.extend(thinner.add(row))
        return out

    def close(self) -> None:
        """Stop the background thread and write what is left."""
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=10)
        self.flush()
        rest = [row for thinner in self._thin.values() for row in thinner.rest()]
        if rest:
            with contextlib.suppress(Exception):
                self.sink.write({"steps": rest})

    def abandon(self) -> None:
        """Forget everything in a forked child: the file belongs to the parent."""
        self.live = False
        self.sink = Nowhere()
        self.samplers, self.on_flush, self.on_tick = [], [], []
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._stop.set()
        self._thread = None


class Nowhere:
    """A sink that keeps nothing."""

    def write(self, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Drop it."""


class OnlyAbout:
    """A sink that hands on what is said about a run as a whole, and nothing more of what happens in it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Append rows of the tables that describe the run."""
        about = {table: values for table, values in rows.items() if table in ("meta", "sources", "gaps")}
        if about:
            self._sink.write(about)


class _Thinner:
    """Keeps every row at first, then joins more and more neighbours into one."""

    def __init__(self) -> None:
        self._rows = 0
        self._pending: list[int] | None = None
        self._joined = 0

    def add(self, row: tuple[int, ...]) -> list[tuple[int, ...]]:
        group = 1 << min(16, self._rows // FULL_ROWS)
        ready: list[tuple[int, ...]] = []
        pending = self._pending
        if pending is not None and (pending[1] != row[1] or pending[11] != row[11]):
            ready.extend(self.rest())
            pending = None
        if pending is None:
            pending, self._joined = list(row), 1
        else:
            pending[3] += row[3]
            for i in range(5, 11):
                pending[i] += row[i]
            self._joined += 1
        self._pending = pending
        if self._joined >= group or row[11] & (Steps.DRAINED | Steps.CUT):
            ready.extend(self.rest())
        return ready

    def rest(self) -> list[tuple[int, ...]]:
        if self._pending is None:
            return []
        row, self._pending = tuple(self._pending), None
        self._rows += 1
        return [row]


_current: Recorder | None = None


def current() -> Recorder | None:
    """Return the recorder of this process, if one is observing."""
    return _current


def set_current(recorder: Recorder | None) -> None:
    """Make a recorder the one of this process."""
    global _current
    _current = recorder


__all__ = ["Nowhere", "OnlyAbout", "Recorder", "Sink", "current", "set_current"]

"""A project's runs in their order, and what became of its step time from one run to the next comparable one."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from fitdoctor.facts.trials import BETWEEN_RUNS
from fitdoctor.model import Interval
from fitdoctor.serve.shelf import Entry


@dataclass(frozen=True)
class Shift:
    """What became of the step time since the run before."""

    before: Entry
    ratio: Interval
    """The step time now over what it was, with what two runs of the same thing differ by."""
    news: tuple[str, ...]
    """What else is known to have changed: versions of packages."""

    @property
    def kind(self) -> Literal["slower", "faster", "same"]:
        """Say slower or faster only where the intervals do."""
        if self.ratio.low > 1:
            return "slower"
        return "faster" if self.ratio.high < 1 else "same"


@dataclass(frozen=True)
class Project:
    """One script and its runs."""

    id: str
    title: str
    folder: str
    runs: tuple[Entry, ...]
    """The newest first."""
    shifts: Mapping[str, Shift]
    """By the id of the later run."""


def projects(entries: Sequence[Entry]) -> list[Project]:
    """Group runs, given newest first, by their script; the project that ran last comes first."""
    grouped: dict[str, list[Entry]] = {}
    for entry in entries:
        if not entry.problem:
            grouped.setdefault(entry.script, []).append(entry)
    return [_project(script, runs) for script, runs in grouped.items()]


def _project(script: str, runs: Sequence[Entry]) -> Project:
    key = hashlib.sha256(script.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    path = PurePath(script)
    folder = "" if str(path.parent) == "." else str(path.parent)
    return Project(key, runs[0].title, folder, tuple(runs), shifts(runs))


def shifts(runs: Sequence[Entry]) -> dict[str, Shift]:
    """Compare each run, given newest first, with the last one before it that can be compared."""
    found: dict[str, Shift] = {}
    last: dict[str, Entry] = {}
    for run in reversed(runs):
        step = run.step
        if step is None or step.low <= 0:
            continue
        key = comparable(run)
        before = last.get(key)
        if before is not None and before.step is not None:
            found[run.id] = Shift(before, ratio(before.step, step), news(before, run))
        last[key] = run
    return found


def comparable(run: Entry) -> str:
    """Return what two runs must share for their step times to be compared."""
    summary = run.summary or {}
    machine = run.meta.get("environment")
    here: Mapping[str, Any] = machine if isinstance(machine, dict) else {}
    gpus = [each.get("name") if isinstance(each, dict) else each for each in here.get("gpus") or ()]
    shared = [
        run.meta.get("command"),
        *(summary.get(name) for name in ("backend", "kind", "batch_size")),
        *(here.get(name) for name in ("cpu", "cores")),
        gpus,
    ]
    return json.dumps(shared, sort_keys=True, default=str)


def ratio(before: Interval, after: Interval) -> Interval:
    """Return after over before; wider by what the same training differs by from one run to another."""
    between = math.exp(BETWEEN_RUNS)
    return Interval(
        after.low / before.high / between, after.mid / before.mid, after.high / max(before.low, 1e-12) * between
    )


def news(before: Entry, after: Entry) -> tuple[str, ...]:
    """Name the packages whose versions changed."""
    was, now = (each.meta.get("versions") or {} for each in (before, after))
    if not isinstance(was, dict) or not isinstance(now, dict):
        return ()
    return tuple(
        f"{name} {was.get(name, 'none')} → {now.get(name, 'none')}"
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    )

"""Diagnoses for the pages: of finished runs once, of a run under way now and then, one at a time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import FitdoctorError, NotACapture
from fitdoctor.facts.timeline import Timeline
from fitdoctor.model import Report, Site
from fitdoctor.report import summary as summaries
from fitdoctor.serve.shelf import Entry, Shelf, Stamp
from fitdoctor.serve.snapshot import readable

KEPT = 8
"""Whole reports that are kept in memory."""
LIVE_SECONDS = 4.0
"""A run under way is diagnosed anew at most this often,"""
LIVE_SHARE = 0.1
"""and takes at most this share of a core."""
IDLE_SECONDS = 2.0
LEAST_SHARE = 0.0005
"""A smaller part of a step is not worth a line."""

SourceOf = Callable[[Site], "list[str] | None"]


@dataclass(frozen=True)
class Answer:
    """One diagnosis."""

    report: Report
    source_of: SourceOf
    timeline: Timeline | None
    stamp: Stamp
    made: float
    """When it was ready, on the monotonic clock."""
    took: float
    """Seconds."""


def diagnose(entry: Entry) -> Answer:
    """Diagnose one capture as it is now; raises FitdoctorError where that is impossible."""
    from dataclasses import replace

    from fitdoctor import pipeline
    from fitdoctor.capture import store

    began = time.monotonic()
    with readable(entry.path) as file:
        capture = replace(store.read(file), path=str(entry.path))
    try:
        report, source_of, timeline = pipeline.examined(capture)
    except Exception as error:  # one strange capture must not take the page of all others down
        raise NotACapture(
            f"{entry.name} cannot be diagnosed: {type(error).__name__}: {error}", do="fitdoctor diagnose says more"
        ) from error
    now = time.monotonic()
    return Answer(report, source_of, timeline, entry.stamp, now, now - began)


class Diagnoses:
    """Makes and keeps the diagnoses of a shelf's captures.  Safe to share between threads."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._kept: OrderedDict[str, Answer] = OrderedDict()
        self._refused: dict[str, Stamp] = {}
        self._working = threading.Lock()
        """One diagnosis at a time: the machine may be training."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def of(self, entry: Entry) -> Answer:
        """Return the diagnosis of a capture as its file is now."""
        found = self._kept.get(entry.id)
        if found is not None and found.stamp == entry.stamp:
            return found
        with self._working:
            found = self._kept.get(entry.id)
            if found is None or found.stamp != entry.stamp:
                found = self._made(entry)
        return found

    def live(self, entry: Entry) -> Answer | None:
        """Return what is known by now of a run under way; None while nothing is, or while it is being worked out."""
        found = self._kept.get(entry.id)
        if found is not None:
            rest = max(LIVE_SECONDS, found.took / LIVE_SHARE)
            if found.stamp == entry.stamp or time.monotonic() - found.made < rest:
                return found
        if not self._working.acquire(blocking=False):
            return found
        try:
            with contextlib.suppress(FitdoctorError, OSError):
                found = self._made(entry)
        finally:
            self._working.release()
        return found

    def _made(self, entry: Entry) -> Answer:
        answer = diagnose(entry)
        self._kept[entry.id] = answer
        self._kept.move_to_end(entry.id)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        self.shelf.learn(entry, summaries.of(answer.report))
        return answer

    # --- in the background: runs that were recorded without a summary -----------------------------------

    def start(self) -> None:
        """Begin to diagnose what has no summary, the newest first."""
        self._thread = threading.Thread(target=self._loop, name="fitdoctor-diagnoses", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the diagnosis under way."""
        self._stop.set()

    def _loop(self) -> None:
        while not self._stop.is_set():
            if not self.work():
                self._stop.wait(IDLE_SECONDS)

    def work(self) -> bool:
        """Diagnose the newest capture without a summary; False where there is none."""
        now = time.time()
        for entry in self.shelf.entries():
            open_ = entry.state(now) in ("running", "unreadable") or self._refused.get(entry.id) == entry.stamp
            if entry.summary is not None or open_:
                continue
            try:
                with self._working:
                    self.shelf.learn(entry, summaries.of(diagnose(entry).report))
            except (FitdoctorError, OSError):
                self._refused[entry.id] = entry.stamp
            return True
        return False


def shown(answer: Answer | None) -> dict[str, Any]:
    """Return what the page of a run under way shows of a diagnosis, as small plain data."""
    from fitdoctor import units
    from fitdoctor.report.html.sections import looks
    from fitdoctor.report.terminal import interval_of

    if answer is None:
        return {"headline": "", "step": "", "parts": [], "findings": []}
    report = answer.report
    step = interval_of(report.run.get("step_ms"))
    total = sum(report.breakdown.values())
    parts = {part: ms for part, ms in report.breakdown.items() if total > 0 and ms / total >= LEAST_SHARE}
    colours = looks(parts)
    return {
        "headline": report.headline,
        "step": units.duration_range(step.scale(1e-3)) if step is not None else "",
        "parts": [
            {
                "name": part,
                "share": ms / total,
                "look": colours[part],
                "text": f"{units.duration(ms / 1e3)}, {units.percent(ms / total)}",
            }
            for part, ms in parts.items()
        ],
        "findings": [
            {
                "rule": each.rule,
                "saves": units.percent_range(each.cost.saving),
                "because": each.cost.because,
                "site": str(each.site) if each.site is not None else "",
            }
            for each in report.findings
        ],
    }

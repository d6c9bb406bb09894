"""One run with some settings, here and now: watched, stopped where it is hopeless, and what became of it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from fitdoctor import units
from fitdoctor.capture import store
from fitdoctor.capture.cap import DEFAULT_STEPS
from fitdoctor.capture.launch import Ended, Options, end
from fitdoctor.errors import FitdoctorError
from fitdoctor.proof import runs
from fitdoctor.tune import seen
from fitdoctor.tune.seen import Seen
from fitdoctor.tune.settings import Settings, not_applied

CHUNKS = 4
"""A run is looked at after so many equal parts of its steps, or of its time where that ends it first."""
INTERRUPTED = (130, 143)
"""Exit codes of a script that somebody asked to end: by Ctrl-C, or politely."""
_SAME_PROCESS_SECONDS = 30.0
_LONGEST_LINE = 300

Look = Callable[[int, float], bool]
"""Told how many parts of a run are over and the seconds per step until now, again and again; True ends the run."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run to make."""

    name: str
    """Of its own, wherever it runs."""
    options: Options
    settings: Settings
    aligned: bool = False
    patience: float = float("inf")
    """Seconds until the first steady steps, after which nobody waits any longer."""

    @property
    def to_run(self) -> Options:
        """Return how to start it."""
        backend = self.settings.backend or self.options.backend
        return replace(self.options, settings=self.settings.data(), backend=backend)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of it: seen, or one of the others."""

    seen: Seen | None = None
    failed: str = ""
    stopped: bool = False
    """Ended before its time: others were faster."""
    interrupted: bool = False
    node: str = ""


def never(chunk: int, step_s: float) -> bool:
    """Let a run go on."""
    return False


class Watch:
    """Decides while a run is under way whether it is worth going on."""

    def __init__(self, job: Job, look: Look, clock: Callable[[], float] = time.monotonic) -> None:
        self._job, self._look, self._clock = job, look, clock
        self._begun = clock()
        self.stopped = False
        self.failed = ""

    def __call__(self, progress: Mapping[str, Any]) -> bool:
        """Tell whether to end it."""
        steps = int(progress.get("steps") or 0)
        step_s = float(progress.get("steady_s") or 0.0) / steps if steps else 0.0
        if not steps and self._clock() - self._begun > self._job.patience:
            self.failed = f"no steady step within {units.duration(self._job.patience)}"
            return True
        options = self._job.options
        part = max(steps / (options.steps or DEFAULT_STEPS), steps * step_s / options.budget)
        self.stopped = self._look(min(CHUNKS, int(part * CHUNKS)), step_s)
        return self.stopped


def attempt(job: Job, look: Look = never, folder: Path | None = None) -> Result:
    """Run it; `folder` is where an earlier attempt may have left something behind."""
    with _folder(folder) as place:
        watch = Watch(job, look)
        errors = place / "errors"
        try:
            ended = runs.start(replace(job.to_run, errors=errors), place, aligned=job.aligned, stop=watch)
            if watch.failed or watch.stopped:
                return Result(failed=watch.failed, stopped=watch.stopped)
            if ended.returncode in INTERRUPTED:
                return Result(interrupted=True)
            if not runs.trained(ended):
                return Result(failed=_last_line(errors, ended))
            found = seen.look(runs.observed(job.options, place))
        except FitdoctorError as error:
            return Result(failed=error.problem)
    missed = not_applied(job.settings, found.about)
    return Result(failed=missed) if missed else Result(found)


def _last_line(errors: Path, ended: Ended) -> str:
    """Return what a script that failed said last."""
    with contextlib.suppress(OSError):
        lines = errors.read_text("utf-8", "replace").splitlines()
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if said and ended.reason == "exception":
            return said[:_LONGEST_LINE]
    return ended.message or f"exit code {ended.returncode}"


@contextlib.contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is None:
        with tempfile.TemporaryDirectory(prefix="fitdoctor-") as folder:
            yield Path(folder)
        return
    if given.exists():
        _end_leftover(runs.place(given))
        shutil.rmtree(given, ignore_errors=True)
    given.mkdir(parents=True)
    try:
        yield given
    finally:
        shutil.rmtree(given, ignore_errors=True)


def _end_leftover(capture: Path) -> None:
    """End the training of an attempt whose own process was killed: it would slow the next one down."""
    with contextlib.suppress(FitdoctorError, psutil.Error, OSError, KeyError, TypeError):
        meta = store.read_meta(capture)
        process = psutil.Process(int(meta["pid"]))
        # The number may be somebody else's by now.
        if abs(process.create_time() - float(meta["started"])) < _SAME_PROCESS_SECONDS:
            end(process.pid)

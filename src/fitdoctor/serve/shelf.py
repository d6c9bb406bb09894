"""The captures below one folder: found, read as far as a list needs it, and remembered until their files change."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from fitdoctor.capture.store import SUFFIX, read_meta
from fitdoctor.errors import FitdoctorError
from fitdoctor.model import Interval
from fitdoctor.report import summary as summaries
from fitdoctor.serve.snapshot import log_of, readable

DEPTH = 3
"""Folders below the given one that are looked into."""
LOOK_SECONDS = 1.0
"""The folder is looked through at most this often."""
SILENT_SECONDS = 60.0
"""A run under way writes every few seconds; one that has not for so long was killed, or sleeps."""

Stamp = tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """One capture as the list shows it."""

    id: str
    path: Path
    name: str
    """Its path below the served folder."""
    stamp: Stamp
    """Size and time of the file and of its log: what is known of it holds as long as they stay."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] | None = None
    problem: str = ""
    """Why it cannot be read."""

    @property
    def written(self) -> float:
        """When it was last written, as unix time."""
        return max(self.stamp[1], self.stamp[3]) / 1e9

    @property
    def started(self) -> float:
        """When the run began, as unix time."""
        value = self.meta.get("started")
        return float(value) if isinstance(value, int | float) else self.written

    @property
    def script(self) -> str:
        """What was run: the script's path, or the module's name."""
        command = self.meta.get("command")
        first = command[0] if isinstance(command, list) and command else ""
        return str(self.meta.get("script") or first or self.name)

    @property
    def title(self) -> str:
        """The script's own name."""
        return PurePath(self.script).name or self.script

    @property
    def arguments(self) -> str:
        """The script's arguments."""
        command = self.meta.get("command")
        words = [str(each) for each in command] if isinstance(command, list) else []
        return " ".join(words[2:] if words[:1] == ["-m"] else words[1:])

    @property
    def step(self) -> Interval | None:
        """Seconds of a step, where they are known."""
        found = (self.summary or {}).get("step_ms")
        try:
            return Interval(found["low"], found["mid"], found["high"]).scale(1e-3) if found else None
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def seconds(self) -> float | None:
        """How long the run was watched."""
        progress = self.meta.get("progress")
        value = self.meta.get("wall_s") or (progress.get("elapsed") if isinstance(progress, dict) else None)
        return float(value) if isinstance(value, int | float) else None

    @property
    def ended(self) -> str:
        """How it ended: capped, finished, exception, signal; or running."""
        found = self.meta.get("exit")
        return str(found.get("reason") or "running") if isinstance(found, dict) else "running"

    def state(self, now: float) -> str:
        """Say what has become of the run: running, silent, capped, finished, exception, signal or unreadable."""
        if self.problem:
            return "unreadable"
        if self.ended == "running":
            return "running" if now - self.written < SILENT_SECONDS else "silent"
        return self.ended


def files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the captures in a folder and a few below it, with their relative names; nothing that leads outside."""
    root = Path(os.path.realpath(folder))
    for at, below, names in os.walk(root, followlinks=False):
        depth = len(Path(at).relative_to(root).parts)
        below[:] = [] if depth >= DEPTH else sorted(each for each in below if not each.startswith("."))
        for name in names:
            path = Path(at) / name
            if name.endswith(SUFFIX) and inside(path, root):
                yield path, path.relative_to(root).as_posix()


def inside(path: Path, root: Path) -> bool:
    """Tell whether a path is a file that really lies below a folder, links followed."""
    real = Path(os.path.realpath(path))
    return real.is_relative_to(os.path.realpath(root)) and real.is_file()


def stamp_of(path: Path) -> Stamp | None:
    """Return size and time of a capture and of its log; None where it is gone."""
    try:
        own = path.stat()
    except OSError:
        return None
    try:
        log = log_of(path).stat()
    except OSError:
        return own.st_size, own.st_mtime_ns, 0, 0
    return own.st_size, own.st_mtime_ns, log.st_size, log.st_mtime_ns


def id_of(name: str) -> str:
    """Return the name that a capture has in addresses: nothing of an address is ever used as a path."""
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def read_entry(path: Path, name: str, stamp: Stamp) -> Entry:
    """Read what the list shows of one capture: its meta rows alone."""
    entry = Entry(id_of(name), path, name, stamp)
    try:
        with readable(path) as file:
            meta = read_meta(file)
    except FitdoctorError as error:
        return replace(entry, problem=error.problem)
    except (OSError, ValueError) as error:
        return replace(entry, problem=f"{type(error).__name__}: {error}")
    found = meta.pop(summaries.KEY, None)
    return replace(entry, meta=meta, summary=found if summaries.valid(found) else None)


class Shelf:
    """All captures below one folder.  Safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        self._entries: dict[str, Entry] = {}
        self._looked = float("-inf")
        self._lock = threading.Lock()

    def entries(self) -> list[Entry]:
        """Return all captures, the newest first."""
        with self._lock:
            if time.monotonic() - self._looked >= LOOK_SECONDS:
                self._look()
            found = list(self._entries.values())
        return sorted(found, key=lambda each: (-each.started, each.name))

    def _look(self) -> None:
        found: dict[str, Entry] = {}
        for path, name in files(self.folder):
            stamp = stamp_of(path)
            if stamp is None:
                continue
            known = self._entries.get(id_of(name))
            entry = known if known is not None and known.stamp == stamp else read_entry(path, name, stamp)
            found[entry.id] = entry
        self._entries = found
        self._looked = time.monotonic()

    def entry(self, id_: str) -> Entry | None:
        """Return one capture that is still there, inside of the folder."""
        found = next((each for each in self.entries() if each.id == id_), None)
        return found if found is not None and inside(found.path, self.folder) else None

    def learn(self, entry: Entry, summary: Mapping[str, Any]) -> None:
        """Remember what a diagnosis said of a capture, as long as its file stays as it was."""
        with self._lock:
            known = self._entries.get(entry.id)
            if known is not None and known.stamp == entry.stamp:
                self._entries[entry.id] = replace(known, summary=summary)

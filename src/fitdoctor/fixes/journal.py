"""What makes a fix undoable: the files as they were, written down before any of them is touched.

A journal is a folder in `undo`, beside the captures: `journal.json` and the original of each file, byte for byte.  It
appears whole or not at all.  One that was undone is kept, under a name that ends in `.undone`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fitdoctor.capture import places
from fitdoctor.errors import CannotFix
from fitdoctor.fixes.plan import FileChange

SCHEMA = "fitdoctor.undo/1"
NAME = "journal.json"
UNDONE = ".undone"
_UNFINISHED = ".new-"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file."""

    path: str
    before: str
    after: str
    """SHA-256 of its bytes."""
    kept: str
    """The original, in the journal's folder."""


@dataclass(frozen=True, slots=True)
class Journal:
    """One `fitdoctor fix --apply`."""

    folder: Path
    made: float
    script: str
    rules: tuple[str, ...]
    entries: tuple[Entry, ...]

    def original(self, entry: Entry) -> bytes:
        """Return a file as it was; raises where the journal itself was damaged."""
        try:
            data = (self.folder / entry.kept).read_bytes()
        except OSError as error:
            raise CannotFix(f"the journal {self.folder} has lost {entry.kept}: {error.strerror}") from error
        if digest(data) != entry.before:
            raise CannotFix(f"the journal {self.folder} is damaged: {entry.kept} is not what it was")
        return data


def digest(data: bytes) -> str:
    """Return what bytes are told apart by."""
    return hashlib.sha256(data).hexdigest()


def folder() -> Path:
    """Return where journals lie, which may not exist yet."""
    return places.home() / "undo"


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep two commands from writing at the same time."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        handle = os.open(folder() / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unwritable(error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for left in folder().glob(f"{_UNFINISHED}*"):  # by a command that was killed: no file was touched for it
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(handle)


def _unwritable(error: OSError) -> CannotFix:
    return CannotFix(
        f"what is needed to undo cannot be kept in {folder()}: {error.strerror or error}; no file was changed",
        do="name a folder you can write to in FITDOCTOR_HOME",
    )


def written(changes: Sequence[FileChange], script: str, rules: Sequence[str]) -> Journal:
    """Write a journal down, safe on the disk, before any file is touched."""
    now = time.time()
    entries = tuple(
        Entry(each.path, digest(each.before), digest(each.after), f"{number}-{os.path.basename(each.path)}")
        for number, each in enumerate(changes)
    )
    try:
        new = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder()))
        for entry, change in zip(entries, changes, strict=True):
            _kept(new / entry.kept, change.before)
        record = {
            "schema": SCHEMA,
            "made": now,
            "script": script,
            "rules": list(rules),
            "entries": [asdict(each) for each in entries],
        }
        _kept(new / NAME, json.dumps(record, indent=2).encode())
        _settled(new)
        place = _free(script, now)
        os.rename(new, place)
        _settled(folder())
    except OSError as error:
        raise _unwritable(error) from error
    return Journal(place, now, script, tuple(rules), entries)


def _free(script: str, now: float) -> Path:
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", Path(script).stem).strip("._")[:60] or "run"
    stem = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{safe}"
    number, place = 2, folder() / stem
    while place.exists() or place.with_name(f"{place.name}{UNDONE}").exists():
        place = folder() / f"{stem}-{number}"
        number += 1
    return place


def _kept(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _settled(path: Path) -> None:
    """Make sure that names in a folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(path: Path) -> Journal:
    """Read a journal back."""
    try:
        record = json.loads((path / NAME).read_bytes())
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']!r}")
        entries = tuple(Entry(**each) for each in record["entries"])
        return Journal(path, float(record["made"]), str(record["script"]), tuple(record["rules"]), entries)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CannotFix(
            f"the journal {path} cannot be read: {error}", do="the originals may still lie in it"
        ) from error


def open_ones(*, readable: bool = False) -> list[Journal]:
    """Return the journals that were not undone, newest first; one that cannot be read is an error, or left out."""
    if not os.path.isdir(folder()):
        return []
    journals: list[Journal] = []
    for each in folder().iterdir():
        if each.is_dir() and not each.name.startswith(".") and not each.name.endswith(UNDONE):
            with contextlib.suppress(*([CannotFix] if readable else [])):
                journals.append(read(each))
    return sorted(journals, key=lambda each: (each.made, each.folder.name), reverse=True)


def newest(script: str | None = None) -> Journal | None:
    """Return the journal to undo next: of a script, or of any."""
    if script is None:
        return next(iter(open_ones()), None)
    real = os.path.realpath(script)
    for each in open_ones(readable=True):
        if real in {os.path.realpath(each.script), *(os.path.realpath(entry.path) for entry in each.entries)}:
            return each
    open_ones()  # one that cannot be read may be the one that is asked for: it is told
    return None


def is_applied(journal: Journal, path: str) -> bool:
    """Tell whether a file is as this journal's fix left it."""
    real = os.path.realpath(path)
    try:
        now = digest(Path(real).read_bytes())
    except OSError:
        return False
    return any(each.path == real and each.after == now for each in journal.entries)


def close(journal: Journal) -> None:
    """Note that a journal is done with; its originals are kept."""
    place = journal.folder.with_name(f"{journal.folder.name}{UNDONE}")
    if place.exists():
        shutil.rmtree(place)
    os.rename(journal.folder, place)

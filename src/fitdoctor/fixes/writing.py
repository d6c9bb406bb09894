"""Files are changed and changed back: whole or not at all, journal first."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fitdoctor.errors import CannotFix
from fitdoctor.fixes import guard, journal
from fitdoctor.fixes.journal import Entry, Journal
from fitdoctor.fixes.plan import FileChange, Plan

_MARK = ".fitdoctor-"


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did."""

    journal: Journal
    restored: tuple[str, ...]
    untouched: tuple[str, ...]
    """Files that were as before already: the fix had been cut short."""


def apply(plan: Plan) -> Journal | None:
    """Write what is ready; None where that changes nothing.  A failure leaves every file as it was."""
    return write(plan.files, plan.script, [each.rule for each in plan.ready])


def write(changes: Sequence[FileChange], script: str, rules: Sequence[str]) -> Journal | None:
    """Change these files for these rules, all or none."""
    if not changes:
        return None
    with journal.alone():
        for each in changes:
            guard.unchanged(each.path, each.before)
        kept = journal.written(changes, script, tuple(dict.fromkeys(rules)))
        _write_all(changes, kept)
    return kept


def _write_all(changes: Sequence[FileChange], kept: Journal) -> None:
    try:
        for each in changes:
            replace_file(each.path, each.before, each.after)
    except BaseException as error:  # an interrupt too: all or none
        _put_back(changes, kept)
        if not isinstance(error, OSError):
            raise
        where = error.filename or "a file"
        raise CannotFix(
            f"cannot write {where}: {error.strerror or error}; every file is as it was", do="see that it can be written"
        ) from error


def _put_back(changes: Sequence[FileChange], kept: Journal) -> None:
    """Take back what was written of a fix that cannot be finished; the journal stays open where that fails."""
    try:
        for each in reversed(changes):
            # Looked at, not remembered: an interrupt may come between the writing and the noting down.
            if Path(each.path).read_bytes() == each.after:
                replace_file(each.path, each.after, each.before)
        journal.close(kept)
    except (CannotFix, OSError) as error:
        raise CannotFix(
            f"a fix was cut short, and not all of it could be taken back: {error}",
            do="`fitdoctor fix --undo` does that",
        ) from error


def replace_file(path: str, before: bytes, after: bytes) -> None:
    """Put other bytes in the place of a file's, at once, its mode and owner kept."""
    target = Path(path)
    _sweep(target)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}{_MARK}", dir=target.parent)
    try:
        with open(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        found = os.stat(target)
        shutil.copystat(target, temporary)
        os.utime(temporary)
        with contextlib.suppress(OSError):
            os.chown(temporary, found.st_uid, found.st_gid)
        guard.unchanged(path, before)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    with contextlib.suppress(OSError):
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _sweep(target: Path) -> None:
    """Remove what a command that was killed has left beside a file."""
    for each in target.parent.glob(f".{_plain(target.name)}{_MARK}*"):
        with contextlib.suppress(OSError):
            each.unlink()


def _plain(name: str) -> str:
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)


def undo(script: str | None = None) -> Undone:
    """Take the last fix back (of a script, or of any): every file as it was, byte for byte, or none."""
    with journal.alone():
        kept = journal.newest(script)
        if kept is None:
            what = f"no fix of {script}" if script else "no fix"
            raise CannotFix(
                f"{what} was written that could be undone (none is in {journal.folder()})",
                do="`fitdoctor fix --apply` writes one",
            )
        found = [_found(entry, kept) for entry in kept.entries]
        changes = [
            FileChange(entry.path, now, kept.original(entry)) for entry, now in zip(kept.entries, found, strict=True)
        ]
        fixed = [each for each in changes if each.before != each.after]
        for each in changes:
            _sweep(Path(each.path))
        for number, each in enumerate(fixed):
            _restore(each, fixed[:number])
        journal.close(kept)
    return Undone(
        kept,
        tuple(each.path for each in fixed),
        tuple(each.path for each in changes if each.before == each.after),
    )


def _found(entry: Entry, kept: Journal) -> bytes:
    """Return a file that is as the fix left it, or as it was before; refuse anything else."""
    original = kept.folder / entry.kept
    try:
        data = Path(entry.path).read_bytes()
    except OSError as error:
        raise CannotFix(
            f"{entry.path} cannot be read: {error.strerror or error}; nothing was undone",
            do=f"its text from before the fix is {original}",
        ) from error
    if journal.digest(data) not in (entry.before, entry.after):
        raise CannotFix(
            f"{entry.path} was edited after the fix was written; nothing was undone",
            do=f"take your edits back first, or merge by hand: its text from before the fix is {original}",
        )
    return data


def _restore(change: FileChange, done: Sequence[FileChange]) -> None:
    """Put a file back, if it is what was looked at; those before it are fixed again where somebody has edited it."""
    try:
        replace_file(change.path, change.before, change.after)
    except CannotFix:
        for each in reversed(done):
            replace_file(each.path, each.after, each.before)
        raise
    except OSError as error:
        raise CannotFix(
            f"cannot write {change.path}: {error.strerror or error}", do="see that it can be written, then undo again"
        ) from error

"""Reading a capture that somebody may be writing, without a lock: the writer is never held up and its file not touched.

A reader in SQLite's write-ahead mode takes a lock, and one that is there when the run ends keeps the writer from
turning its capture into one plain file.  So the bytes are copied instead, and the copy is read.  The log (`-wal`) only
grows until SQLite begins it anew under another salt; as long as the salt stays the same, the log holds every page that
a checkpoint may have been moving into the main file meanwhile, and its checksums tell where it ends.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fitdoctor.errors import NotACapture

_HEADER = 32
"""Bytes of the log's header: magic, version, page size, sequence, salts, checksum."""
_TRIES = 20


def log_of(path: Path) -> Path:
    """Return where SQLite keeps the write-ahead log of a file."""
    return path.with_name(path.name + "-wal")


def is_live(path: Path) -> bool:
    """Tell whether a capture has a write-ahead log: it is being written, or its writer was killed."""
    return log_of(path).exists()


@contextlib.contextmanager
def readable(path: Path) -> Iterator[Path]:
    """Give a file that can be read at leisure: the capture itself once it is sealed, else a copy of this moment."""
    if not is_live(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="fitdoctor-serve-") as folder:
        copy = Path(folder) / path.name
        for _ in range(_TRIES):
            if _copied(path, copy):
                break
        else:
            raise NotACapture(f"{path} is written faster than it can be read", do="look again in a moment")
        yield copy


def _copied(path: Path, copy: Path) -> bool:
    """Copy the main file, then the log; False if the log was begun anew or taken away meanwhile."""
    log, log_copy = log_of(path), log_of(copy)
    log_copy.unlink(missing_ok=True)
    before = _salt(log)
    shutil.copyfile(path, copy)
    if before is None:
        return _salt(log) is None  # sealed: the main file is all there is
    try:
        shutil.copyfile(log, log_copy)
    except FileNotFoundError:
        return False
    return before == _salt(log) == _salt(log_copy)


def _salt(log: Path) -> bytes | None:
    """Return the header of a log, which changes whenever SQLite begins it anew; None where there is no log."""
    try:
        with log.open("rb") as file:
            return file.read(_HEADER)
    except FileNotFoundError:
        return None

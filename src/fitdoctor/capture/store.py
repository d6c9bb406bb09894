"""One SQLite file per run: append-only, versioned, crash-safe, readable while it is being written.

The file is in write-ahead mode while a run writes it, so that `diagnose`, `report` and the progress display can read it
at any moment and a `kill -9` loses at most the last flush.  `seal` turns it into a single plain file.
No training data ever goes in: times, counts, names, source lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fitdoctor.capture import shape
from fitdoctor.errors import CannotWrite, CaptureError, NewerCapture, NotACapture
from fitdoctor.model import (
    CAPTURE_SCHEMA,
    Call,
    CallbackTime,
    Capture,
    Compile,
    Drained,
    Epoch,
    Gap,
    HostSample,
    Inside,
    LiveOperator,
    PyFunc,
    Read,
    Site,
    Source,
    Steps,
    Trial,
)

APPLICATION_ID = 0x66697464  # "fitd"
VERSION = 1
SUFFIX = ".fitdoctor"

_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE calls(id INTEGER PRIMARY KEY, kind TEXT, path TEXT, line INT, symbol TEXT, parent INT, start_ns INT,
                   end_ns INT, count INT, info TEXT);
CREATE TABLE steps(call INT, epoch INT, step INT, count INT, start_ns INT, wall_ns INT, fetch_ns INT, transfer_ns INT,
                   run_ns INT, callbacks_ns INT, sync_ns INT, flags INT);
CREATE TABLE inside(call INT, step INT, count INT, wait_ns INT, compute_ns INT, cpu_ns INT);
CREATE TABLE drained(call INT, step INT, launch_ns INT, compute_ns INT);
CREATE TABLE callbacks(call INT, name TEXT, hook TEXT, path TEXT, line INT, builtin INT, threaded INT, count INT,
                       total_ns INT, self_ns INT, max_ns INT, PRIMARY KEY(call, name, hook, threaded));
CREATE TABLE epochs(call INT, epoch INT, start_ns INT, steps_end_ns INT, validation_ns INT, end_ns INT,
                    PRIMARY KEY(call, epoch));
CREATE TABLE compiles(call INT, kind TEXT, name TEXT, start_ns INT, duration_ns INT, path TEXT, line INT, detail TEXT);
CREATE TABLE pyfuncs(name TEXT, kind TEXT, path TEXT, line INT, count INT, wall_ns INT, cpu_ns INT,
                     PRIMARY KEY(name, kind, path, line));
CREATE TABLE reads(call INT, path TEXT, line INT, symbol TEXT, count INT, total_ns INT, PRIMARY KEY(call, path, line));
CREATE TABLE operators(call INT, step INT, t_ns INT, iterator INT, since INT, node INT, name TEXT, inputs TEXT,
                       elements INT, processing_ns INT, produced INT, consumed INT, buffered INT, buffered_bytes INT,
                       parameters TEXT, root INT);
CREATE TABLE host(t_ns INT, data TEXT);
CREATE TABLE trials(name TEXT, call INT, baseline TEXT, changed TEXT, detail TEXT);
CREATE TABLE sources(path TEXT PRIMARY KEY, sha256 TEXT, text BLOB);
CREATE TABLE gaps(what TEXT, reason TEXT, remedy TEXT, UNIQUE(what, reason));
"""

_REPLACED = frozenset({"meta", "calls", "callbacks", "epochs", "pyfuncs", "reads", "sources"})
"""Tables whose rows are written again when they change; all others only grow."""

_WIDTHS = {
    "meta": 2, "calls": 10, "steps": 12, "inside": 6, "drained": 4, "callbacks": 11, "epochs": 6, "compiles": 8,
    "pyfuncs": 7, "reads": 6, "operators": 16, "host": 2, "trials": 5, "sources": 3, "gaps": 3,
}  # fmt: skip


class Writer:
    """Appends to one capture file; the only writer of its file.  Not safe to share between threads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                raise CannotWrite(
                    f"{self.path} exists already",
                    do="name another file, or delete it: captures are never overwritten",
                )
            self._db = sqlite3.connect(self.path, timeout=10, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL").fetchone()
            # Off: nothing waits for the disk.  The data survives the death of the process, not that of the machine.
            self._db.execute("PRAGMA synchronous=OFF")
            self._db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            self._db.execute(f"PRAGMA user_version={VERSION}")
            self._db.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise CannotWrite(
                f"cannot write the capture {self.path}: {error}",
                do="name a writable place with --capture FILE",
            ) from error
        self.meta({"schema": CAPTURE_SCHEMA})

    @classmethod
    def reopen(cls, path: str | os.PathLike[str]) -> Writer:
        """Continue a capture whose first writer is gone (the launcher adds what only it knows)."""
        writer = cls.__new__(cls)
        writer.path = Path(path)
        try:
            writer._db = sqlite3.connect(writer.path, timeout=10, isolation_level=None, check_same_thread=False)
            writer._db.execute("PRAGMA synchronous=OFF")
            writer._db.execute("SELECT count(*) FROM meta").fetchone()
        except sqlite3.Error as error:
            raise CaptureError(f"cannot reopen the capture {path}: {error}") from error
        return writer

    def write(self, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Append rows, table by table, in one transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for table, values in rows.items():
                verb = "INSERT OR REPLACE" if table in _REPLACED else "INSERT OR IGNORE"
                marks = ",".join("?" * _WIDTHS[table])
                self._db.executemany(f"{verb} INTO {table} VALUES({marks})", values)
            self._db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def meta(self, values: Mapping[str, Any]) -> None:
        """Set facts about the run as a whole."""
        self.write({"meta": [(key, json.dumps(value)) for key, value in values.items()]})

    def get_meta(self, key: str) -> Any:
        """Read one back."""
        row = self._db.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
        return json.loads(row[0]) if row else None

    def close(self) -> None:
        """Stop writing; the file stays in write-ahead mode."""
        self._db.close()

    def seal(self) -> None:
        """Make it one plain file that can be copied anywhere, and stop writing."""
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._db.execute("PRAGMA journal_mode=DELETE").fetchall()
        self._db.close()


def source_row(path: str, sha256: str, text: str | None) -> tuple[str, str, bytes | None]:
    """Build a row for the `sources` table."""
    return path, sha256, None if text is None else zlib.compress(text.encode("utf-8", "surrogateescape"))


@contextlib.contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    file = Path(path)
    do = f"give a file written by `fitdoctor run` (it ends in {SUFFIX})"
    if not os.path.isfile(file):
        raise NotACapture(f"expected a capture at {file}, found {_found(file)}", do=do)
    if not os.access(file, os.R_OK):
        raise NotACapture(f"cannot open {file}: permission denied", do="check its permissions")
    if file.stat().st_size == 0:
        raise NotACapture(f"{file} is empty", do=do)
    try:
        # A sealed capture may lie on a read-only disk; one in use needs its write-ahead log beside it.
        live = Path(f"{file}-wal").exists()
        uri = f"{file.resolve().as_uri()}?mode=ro" + ("" if live else "&immutable=1")
        db = sqlite3.connect(uri, uri=True, timeout=10)
    except sqlite3.Error as error:
        raise NotACapture(f"cannot open {file}: {error}", do=do) from error
    try:
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise NotACapture(f"{file} is a SQLite file, but not a capture of fitdoctor", do=do)
        if version > VERSION:
            raise NewerCapture(
                f"{file} has capture version {version}; this fitdoctor reads up to {VERSION}",
                do="upgrade fitdoctor: pip install -U fitdoctor",
            )
        yield db
    except sqlite3.DatabaseError as error:
        raise NotACapture(f"{file} is not a readable capture: {error}", do=do) from error
    finally:
        db.close()


def _found(file: Path) -> str:
    """Say what is there that is no file."""
    try:
        file.stat()
    except PermissionError:
        return "a folder that may not be searched"
    except OSError:
        return "nothing"
    return "a folder" if file.is_dir() else "a pipe or a device"


def read_meta(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read only the facts about the run as a whole: cheap, for progress displays."""
    with _open(path) as db:
        return shape.fitted({key: json.loads(value) for key, value in db.execute("SELECT key, value FROM meta")})[0]


@contextlib.contextmanager
def scan(path: str | os.PathLike[str]) -> Iterator[Callable[[str], Iterator[Any]]]:
    """Give a function that runs a query and yields its rows one by one: for what cannot hold a capture in memory."""
    with _open(path) as db:
        yield db.execute


def check_schema(meta: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Refuse a capture that says that it is of another kind."""
    if meta.get("schema") != CAPTURE_SCHEMA:
        raise NotACapture(f"{path} says schema {meta.get('schema')!r}, expected {CAPTURE_SCHEMA!r}")


def damaged(path: str | os.PathLike[str], error: Exception) -> NotACapture:
    """Say that rows of a capture are not what they should be."""
    return NotACapture(f"{path} is damaged: {error}", do="run `fitdoctor run` again to get a new capture")


def _table(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"expected a table, found {text[:60]}")
    return value


def _site(path: str | None, line: int | None, symbol: str | None = None) -> Site | None:
    return Site(path, line, None, symbol) if path and line else None


def _operator(row: Sequence[Any]) -> LiveOperator:
    *at, name, inputs, elements, processing, produced, consumed, buffered, size, parameters, root = row
    call, step, t_ns, iterator, since, node = at
    return LiveOperator(
        call, step, t_ns, iterator, since, node, name, tuple(json.loads(inputs)), elements, processing, produced,
        consumed, buffered, size, json.loads(parameters), bool(root),
    )  # fmt: skip


def _by_call(db: sqlite3.Connection, table: str) -> Iterator[tuple[int, list[Any]]]:
    """Yield (call, columns as arrays) in the order the rows were written."""
    import numpy as np

    rows = db.execute(f"SELECT * FROM {table} ORDER BY call, rowid").fetchall()  # noqa: S608 - our own names
    if not rows:
        return
    array = np.array(rows, dtype=np.int64)
    calls, starts = np.unique(array[:, 0], return_index=True)
    for call, part in zip(calls, np.split(array, starts[1:]), strict=True):
        yield int(call), [part[:, i] for i in range(1, part.shape[1])]


def read(path: str | os.PathLike[str]) -> Capture:
    """Read a capture, finished or not, on any machine."""
    with _open(path) as db:
        try:
            return _read(db, str(path))
        except (sqlite3.Error, ValueError, KeyError, TypeError, zlib.error) as error:
            raise damaged(path, error) from error


def _read(db: sqlite3.Connection, path: str) -> Capture:
    def rows(query: str) -> Iterable[Any]:
        return db.execute(query)

    meta = {key: json.loads(value) for key, value in rows("SELECT key, value FROM meta")}
    check_schema(meta, path)
    meta, strange = shape.fitted(meta)
    return Capture(
        path=path,
        meta=meta,
        calls=tuple(
            Call(i, kind, _site(p, line, symbol), parent, start, end, count, _table(info))
            for i, kind, p, line, symbol, parent, start, end, count, info in rows("SELECT * FROM calls ORDER BY id")
        ),
        steps={call: Steps(*columns) for call, columns in _by_call(db, "steps")},
        inside={call: Inside(*columns) for call, columns in _by_call(db, "inside")},
        drained={call: Drained(*columns) for call, columns in _by_call(db, "drained")},
        callbacks=tuple(
            CallbackTime(call, name, hook, _site(p, line), bool(builtin), bool(threaded), n, total, own, most)
            for call, name, hook, p, line, builtin, threaded, n, total, own, most in rows(
                "SELECT * FROM callbacks ORDER BY call, total_ns DESC"
            )
        ),
        epochs=tuple(Epoch(*row) for row in rows("SELECT * FROM epochs ORDER BY call, epoch")),
        compiles=tuple(
            Compile(call, kind, name, start, took, _site(p, line), _table(detail))
            for call, kind, name, start, took, p, line, detail in rows("SELECT * FROM compiles ORDER BY start_ns")
        ),
        pyfuncs=tuple(
            PyFunc(name, kind, _site(p, line), n, wall, cpu)
            for name, kind, p, line, n, wall, cpu in rows("SELECT * FROM pyfuncs ORDER BY wall_ns DESC")
        ),
        host=tuple(HostSample(t, _table(data)) for t, data in rows("SELECT * FROM host ORDER BY t_ns")),
        trials=tuple(
            Trial(name, call, tuple(json.loads(base)), tuple(json.loads(changed)), _table(detail))
            for name, call, base, changed, detail in rows("SELECT * FROM trials ORDER BY rowid")
        ),
        sources=tuple(
            Source(p, sha, None if text is None else zlib.decompress(text).decode("utf-8", "surrogateescape"))
            for p, sha, text in rows("SELECT * FROM sources ORDER BY path")
        ),
        gaps=(*strange, *(Gap(*row) for row in rows("SELECT * FROM gaps ORDER BY rowid"))),
        reads=tuple(
            Read(call, Site(p, line, None, symbol), n, total)
            for call, p, line, symbol, n, total in (rows(_READS) if _has(db, "reads") else ())
        ),
        operators=tuple(_operator(row) for row in (rows(_OPERATORS) if _has(db, "operators") else ())),
    )


_READS = "SELECT * FROM reads ORDER BY total_ns DESC"
_OPERATORS = "SELECT * FROM operators ORDER BY rowid"


def _has(db: sqlite3.Connection, table: str) -> bool:
    """Tell whether a capture, perhaps an older one, has a table."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE type='table' AND name=?", (table,)).fetchone() is not None

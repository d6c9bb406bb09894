"""What was planned, what is finished, and the checksum of everything: one SQLite file among the shards.

A shard goes through three states.  `planned`: nothing of it counts.  `written`: it lies under its temporary name,
complete, on the disk, read back and compared; its checksum is known.  `done`: it has its name.  A kill at any moment
leaves it in one of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fitdoctor.errors import ShardError, UsageError
from fitdoctor.shard.source import Found

NAME = "fitdoctor-shards.sqlite"
LOCK = ".fitdoctor-shard.lock"
_APPLICATION_ID = 0x66697473  # "fits"
_VERSION = 1
_TABLES = """
CREATE TABLE about(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE shards(number INTEGER PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, sha256 TEXT, size INT,
                    records INT);
CREATE TABLE files(place INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, size INT NOT NULL, stamp TEXT NOT NULL,
                   shard INT NOT NULL, record INT, offset INT, sha256 TEXT, bad TEXT);
CREATE INDEX files_of_shard ON files(shard);
"""


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard file."""

    number: int
    name: str
    state: str
    sha256: str | None
    size: int | None
    records: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the plan, and what became of it."""

    place: int
    found: Found
    record: int | None = None
    """Its number within the shard."""
    offset: int | None = None
    """Where its record begins, in bytes (TFRecord only)."""
    sha256: str | None = None
    bad: str | None = None


class Manifest:
    """The manifest of one folder of shards."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None)
            self._db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
            if self._db.execute("PRAGMA user_version").fetchone()[0] == 0 and not self._tables():
                with self._all_or_nothing():
                    for statement in filter(str.strip, _TABLES.split(";")):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA application_id={_APPLICATION_ID}")
                    self._db.execute(f"PRAGMA user_version={_VERSION}")
            application = self._db.execute("PRAGMA application_id").fetchone()[0]
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.Error as error:
            raise ShardError(
                f"the manifest {self.path} cannot be used: {error}", do="convert anew, into another folder"
            ) from error
        if (application, version) != (_APPLICATION_ID, _VERSION):
            raise ShardError(f"{self.path} is not a manifest this fitdoctor knows", do="name another folder as DST")

    def _tables(self) -> int:
        count: int = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return count

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # --- the plan ---------------------------------------------------------------------------------

    @property
    def about(self) -> dict[str, Any]:
        """What the conversion was asked for, and whether it is complete; empty before it was planned."""
        return {key: json.loads(value) for key, value in self._db.execute("SELECT key, value FROM about")}

    def plan(self, about: dict[str, Any], files: Sequence[Found], numbers: Sequence[int], names: Sequence[str]) -> None:
        """Write down what will be done, all of it or nothing."""
        with self._all_or_nothing():
            self._db.executemany(
                "INSERT INTO files(place, path, size, stamp, shard, bad) VALUES(?,?,?,?,?,?)",
                [
                    (place, _raw(each.path), each.size, each.stamp, number, each.problem)
                    for place, (each, number) in enumerate(zip(files, numbers, strict=True))
                ],
            )
            self._db.executemany(
                "INSERT INTO shards(number, name, state) VALUES(?,?,'planned')", list(enumerate(names))
            )
            rows = [(key, json.dumps(value)) for key, value in {**about, "complete": False}.items()]
            self._db.executemany("INSERT INTO about VALUES(?,?)", rows)

    def completed(self) -> None:
        """Note that everything planned is there."""
        self._db.execute("UPDATE about SET value='true' WHERE key='complete'")

    # --- what became of it ------------------------------------------------------------------------

    def shards(self) -> list[Shard]:
        """Return every shard, in order."""
        return [Shard(*row) for row in self._db.execute("SELECT * FROM shards ORDER BY number")]

    def entries(self, shard: int | None = None) -> list[Entry]:
        """Return the files (of one shard), in order."""
        where, values = ("WHERE shard=?", (shard,)) if shard is not None else ("", ())
        query = f"SELECT place, path, size, stamp, record, offset, sha256, bad FROM files {where} ORDER BY place"  # noqa: S608 - our own words
        return [
            Entry(place, Found(_text(path), size, stamp), record, offset, sha256, bad)
            for place, path, size, stamp, record, offset, sha256, bad in self._db.execute(query, values)
        ]

    def written(self, shard: int, entries: Sequence[Entry], sha256: str, size: int) -> None:
        """Note that a shard lies complete under its temporary name."""
        records = sum(each.bad is None for each in entries)
        with self._all_or_nothing():
            self._db.executemany(
                "UPDATE files SET record=?, offset=?, sha256=?, bad=? WHERE place=?",
                [(each.record, each.offset, each.sha256, each.bad, each.place) for each in entries],
            )
            self._db.execute(
                "UPDATE shards SET state='written', sha256=?, size=?, records=? WHERE number=?",
                (sha256, size, records, shard),
            )

    def state(self, shard: int, state: str) -> None:
        """Note what a shard has come to."""
        self._db.execute("UPDATE shards SET state=? WHERE number=?", (state, shard))


def _raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Keep every other conversion out of a folder; the system lets go of the lock when the process dies."""
    import fcntl

    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"another fitdoctor is converting into {folder}", do="wait for it, or name another folder as DST"
            ) from error
        yield
    finally:
        os.close(handle)

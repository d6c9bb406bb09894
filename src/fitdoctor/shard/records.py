"""Shard files: TFRecord, framed here, and ArrayRecord, by its own library."""

from __future__ import annotations

import errno
import importlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from fitdoctor.errors import ShardError, UsageError

FORMATS = ("tfrecord", "array_record")
_MASK_DELTA = 0xA282EAD8
_HEAD = struct.Struct("<QI")
_FOOT = struct.Struct("<I")
_AT_ONCE = 64
"""Records of an ArrayRecord file that are read at a time."""
_NEEDS = {"google_crc32c": "google-crc32c", "array_record.python.array_record_module": "array_record"}


class Writer(Protocol):
    """Appends records to one file."""

    def write(self, record: bytes) -> int | None:
        """Append a record; returns where it begins, in bytes, where the format can tell."""

    def close(self) -> None:
        """Finish the file; it lies on the disk afterwards."""


def needed(module: str) -> Any:
    """Import what a format or a place is read with, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = _NEEDS.get(module, module)
        raise UsageError(
            f"this needs the package {package}, which cannot be imported: {error}",
            do=f"pip install 'fitdoctor[shard]' (or pip install {package})",
        ) from error


def suffix(format_: str) -> str:
    """Return how names of shards end."""
    return f".{format_}"


def writer(path: Path, format_: str) -> Writer:
    """Begin a shard file."""
    return _TFRecord(path) if format_ == "tfrecord" else _ArrayRecord(path)


def read(path: Path, format_: str) -> Iterator[bytes]:
    """Yield the records of a shard file; ShardError where it is damaged."""
    return _read_tfrecord(path) if format_ == "tfrecord" else _read_array_record(path)


class _TFRecord:
    """Length, checksum of the length, data, checksum of the data."""

    def __init__(self, path: Path) -> None:
        self._crc = needed("google_crc32c").value
        self._file = open(path, "wb", buffering=1 << 20)  # noqa: SIM115 - closed by `close`
        self._place = 0

    def write(self, record: bytes) -> int:
        begin = self._place
        length = struct.pack("<Q", len(record))
        self._file.write(length + _FOOT.pack(_masked(self._crc(length))))
        self._file.write(record)
        self._file.write(_FOOT.pack(_masked(self._crc(record))))
        self._place += _HEAD.size + len(record) + _FOOT.size
        return begin

    def close(self) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()


def _masked(crc: int) -> int:
    """Store a checksum so that checksums of data that holds checksums stay good: TensorFlow's way."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def _read_tfrecord(path: Path) -> Iterator[bytes]:
    crc = needed("google_crc32c").value
    with open(path, "rb", buffering=1 << 20) as file:
        while head := file.read(_HEAD.size):
            if len(head) < _HEAD.size:
                raise damaged(path, "its last record has no beginning")
            length, expected = _HEAD.unpack(head)
            if _masked(crc(head[:8])) != expected:
                raise damaged(path, "the length of a record fails its checksum")
            record, foot = file.read(length), file.read(_FOOT.size)
            if len(record) < length or len(foot) < _FOOT.size:
                raise damaged(path, "its last record has no end")
            if _masked(crc(record)) != _FOOT.unpack(foot)[0]:
                raise damaged(path, "a record fails its checksum")
            yield record


class _ArrayRecord:
    def __init__(self, path: Path) -> None:
        self._path = path
        # Groups of one: Grain reads any record by its number.
        self._writer = needed("array_record.python.array_record_module").ArrayRecordWriter(str(path), "group_size:1")

    def write(self, record: bytes) -> None:
        try:
            self._writer.write(record)
        except RuntimeError as error:
            raise OSError(errno.EIO, str(error), str(self._path)) from error

    def close(self) -> None:
        try:
            self._writer.close()
        except RuntimeError as error:
            raise OSError(errno.EIO, str(error), str(self._path)) from error
        handle = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _read_array_record(path: Path) -> Iterator[bytes]:
    module = needed("array_record.python.array_record_module")
    try:
        reader = module.ArrayRecordReader(str(path))
        try:
            count = int(reader.num_records())
            for first in range(0, count, _AT_ONCE):
                yield from reader.read(list(range(first, min(first + _AT_ONCE, count))))
        finally:
            reader.close()
    except (RuntimeError, ValueError, IndexError) as error:
        raise damaged(path, str(error)) from error


def damaged(path: Path, how: str) -> ShardError:
    """Build the error of a shard that is not what was written."""
    return ShardError(f"{path} is damaged: {how}", do="delete it and run the same command again: it is written anew")

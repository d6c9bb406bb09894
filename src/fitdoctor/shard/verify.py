"""Shards compared with the manifest: every record is read back."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from fitdoctor.errors import ShardError, UsageError
from fitdoctor.shard import records
from fitdoctor.shard.asked import Tell
from fitdoctor.shard.example import parse
from fitdoctor.shard.manifest import NAME, Entry, Manifest


def check_records(path: Path, format_: str, entries: Sequence[Entry]) -> None:
    """Compare what a shard file holds with what should be in it, record by record and in order."""
    expected = [each for each in entries if each.bad is None]
    count = 0
    for record in records.read(path, format_):
        if count >= len(expected):
            raise records.damaged(path, f"it holds more than the {len(expected)} records of the manifest")
        entry = expected[count]
        try:
            held = parse(record)
            same = (
                held["path"] == entry.found.path.encode("utf-8", "surrogateescape")
                and hashlib.sha256(held["bytes"]).hexdigest() == entry.sha256
            )
        except (ValueError, KeyError, IndexError):
            same = False
        if not same:
            raise records.damaged(path, f"record {count} is not what the manifest says")
        count += 1
    if count != len(expected):
        raise records.damaged(path, f"it holds {count} records, the manifest says {len(expected)}")


def sha256_of(path: Path) -> str:
    """Return the checksum of a whole file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def forget_cached(path: Path) -> None:
    """Let the next reading of a file come from the disk, where the system allows it."""
    if hasattr(os, "posix_fadvise"):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def verify(folder: Path, tell: Tell) -> tuple[int, int, int]:
    """Check a finished conversion; returns the number of shards, records and bytes of their files."""
    if not (folder / NAME).is_file():
        raise UsageError(f"expected shards of `fitdoctor shard` in {folder}, found no manifest", do="name that folder")
    manifest = Manifest(folder)
    try:
        about = manifest.about
        if not about.get("complete"):
            raise ShardError(f"the conversion into {folder} is not complete", do="run it again without --verify")
        shards = [each for each in manifest.shards() if each.state == "done"]
        tell.total(len(shards), sum(each.records or 0 for each in shards), sum(each.size or 0 for each in shards))
        for shard in shards:
            path = folder / shard.name
            if not path.is_file():
                raise ShardError(f"{path} is missing", do="run the command again without --verify: it is written anew")
            if sha256_of(path) != shard.sha256:
                raise records.damaged(path, "its checksum is not that of the manifest")
            check_records(path, str(about["format"]), manifest.entries(shard.number))
            tell.done(shard.records or 0, shard.size or 0)
        return len(shards), sum(each.records or 0 for each in shards), sum(each.size or 0 for each in shards)
    finally:
        manifest.close()

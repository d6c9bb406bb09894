"""The conversion: plan, read ahead, write shard by shard, read back; resumable after a kill at any moment."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fitdoctor import units
from fitdoctor.errors import BadFiles, ShardError, UsageError
from fitdoctor.shard import manifest as manifests
from fitdoctor.shard import plan, records
from fitdoctor.shard.ahead import Read, reading_ahead
from fitdoctor.shard.asked import Asked, Result, Tell
from fitdoctor.shard.example import example, label_of
from fitdoctor.shard.manifest import Entry, Manifest, Shard
from fitdoctor.shard.source import Folder, Found, Source, differences, shown, some
from fitdoctor.shard.verify import check_records, forget_cached, sha256_of

_OVERHEAD = 64
"""Bytes a record takes beside the file and its path, at most: framing and protobuf's lengths."""
_GOES_ON = "the same command goes on where it stopped"


def listed(source: Source, asked: Asked) -> list[Found]:
    """List the files that are meant, in the order they will be written."""
    every = source.files()
    files = plan.ordered(plan.chosen(every, asked.include, asked.exclude), asked.seed)
    if not files:
        left_out = f", {len(every)} left out by --include and --exclude" if every else ""
        raise UsageError(f"found no files in {source.name}{left_out}", do="check the path and the patterns")
    return files


def convert(source: Source, folder: Path, asked: Asked, tell: Tell) -> Result:
    """Turn the files of a source into shards in a folder; go on where an earlier run stopped."""
    _prepare(source, folder)
    try:
        with manifests.only_one(folder), contextlib.closing(Manifest(folder)) as manifest:
            _planned(manifest, source, folder, asked)
            return _Conversion(source, folder, asked, tell, manifest).run()
    except (OSError, sqlite3.Error) as error:
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "full" in str(error)
        raise ShardError(
            f"cannot write to {folder}: {getattr(error, 'strerror', None) or error}",
            do=f"{'make room' if full else 'repair that'}, then {_GOES_ON}",
        ) from error


def _prepare(source: Source, folder: Path) -> None:
    """Make the folder, and keep away from one that holds anything else."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"expected a folder for the shards, found the file {folder}", do="name another DST")
    if isinstance(source, Folder) and Path(os.path.realpath(source.root)) in [
        Path(os.path.realpath(folder)), *Path(os.path.realpath(folder)).parents,
    ]:  # fmt: skip
        raise UsageError(f"DST {folder} lies in SRC, and would become part of it", do="name a folder outside of SRC")
    ours = {manifests.NAME, f"{manifests.NAME}-journal", manifests.LOCK}
    if folder.is_dir() and not (folder / manifests.NAME).exists() and set(os.listdir(folder)) - ours:
        raise UsageError(
            f"{folder} holds files that fitdoctor did not write", do="name a new or an empty folder as DST"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {folder}: {error.strerror}", do="name a folder you can write to") from error


def _planned(manifest: Manifest, source: Source, folder: Path, asked: Asked) -> None:
    """Make the plan, or compare an earlier one with what is asked and what is there now."""
    files = listed(source, asked)
    known = manifest.about
    if not known:
        refuse_bad([(each.path, each.problem) for each in files if each.problem], asked)
        _room(folder, files)
        numbers = numbered(files, asked)
        names = [f"part-{number:05d}{records.suffix(asked.format)}" for number in range(numbers[-1] + 1)]
        manifest.plan(asked.about(source.name), files, numbers, names)
        return
    wanted = asked.about(source.name)
    other = [
        f"{name}: {known.get(name)!r}, now {value!r}" for name, value in wanted.items() if known.get(name) != value
    ]
    if other:
        raise UsageError(
            f"{folder} was begun with other options:\n{some(other)}",
            do="use the same ones, or name a new folder as DST",
        )
    changed = differences([entry.found for entry in manifest.entries()], files)
    if changed:
        raise ShardError(
            f"{source.name} was changed since the conversion began:\n{some(changed)}",
            do="convert it anew, into another folder",
        )


def numbered(files: Sequence[Found], asked: Asked) -> list[int]:
    """Return the number of the shard of each file."""
    return plan.shards([_record_size(each) for each in files], asked.shard_bytes)


def refuse_bad(bad: Sequence[tuple[str, str | None]], asked: Asked) -> None:
    """Stop where files cannot be taken over, unless the user lets them be skipped."""
    if bad and not asked.skip_bad:
        raise BadFiles(
            f"{len(bad)} file{'s' if len(bad) > 1 else ''} cannot be taken over:\n"
            + some([f"{shown(path)}: {why}" for path, why in bad]),
            do=f"leave them out with --skip-bad ({_GOES_ON}), or repair them and convert anew",
        )


def _record_size(found: Found) -> int:
    return found.size + 2 * len(found.path) + _OVERHEAD


def _room(folder: Path, files: Sequence[Found]) -> None:
    need, free = sum(map(_record_size, files)), shutil.disk_usage(folder).free
    if need > free:
        raise ShardError(
            f"the shards take {units.size(need)}, and {folder} has {units.size(free)} left",
            do="make room, or name a folder on another disk",
        )


class _Conversion:
    """One run of a conversion whose plan is made."""

    def __init__(self, source: Source, folder: Path, asked: Asked, tell: Tell, manifest: Manifest) -> None:
        self.source, self.folder, self.asked, self.tell, self.manifest = source, folder, asked, tell, manifest

    def run(self) -> Result:
        """Write what is not there yet."""
        refuse_bad([(each.found.path, each.bad) for each in self.manifest.entries() if each.bad], self.asked)
        todo = [shard for shard in self.manifest.shards() if not self._finished(shard)]
        lengths = [len(self.manifest.entries(shard.number)) for shard in todo]
        entries = [entry for shard in todo for entry in self.manifest.entries(shard.number)]
        self.tell.total(len(todo), len(entries), sum(each.found.size for each in entries))
        with reading_ahead(self.source, entries, self.asked.jobs) as content:
            for shard, length in zip(todo, lengths, strict=True):
                self._write(shard, content, length)
        self._source_unchanged()
        self.manifest.completed()
        # What could not be read is known by now, and is nothing that was written.
        return self._result(sum(not each.bad for shard in todo for each in self.manifest.entries(shard.number)))

    def _finished(self, shard: Shard) -> bool:
        """Tell whether a shard of an earlier run counts, and clear away what does not."""
        final, partial = self.folder / shard.name, self._partial(shard)
        if shard.state == "empty":
            return True
        if shard.state == "written":
            # Killed while it was given its name.
            whole = next((each for each in (final, partial) if _is(each, shard)), None)
            if whole is not None:
                self._name(shard, whole)
                return True
        if shard.state == "done" and final.exists():
            if final.stat().st_size != shard.size:
                raise records.damaged(final, f"it has {final.stat().st_size} bytes instead of {shard.size}")
            return True
        partial.unlink(missing_ok=True)
        if final.exists():
            raise UsageError(f"{final} was not written by fitdoctor", do="move it away, or name a new folder as DST")
        self.manifest.state(shard.number, "planned")
        return False

    def _partial(self, shard: Shard) -> Path:
        return self.folder / f".{shard.name}.partial"

    def _write(self, shard: Shard, content: Iterator[Read], length: int) -> None:
        """Write a shard, read it back, then give it its name."""
        partial = self._partial(shard)
        try:
            entries = self._fill(partial, content, length)
            refuse_bad([(each.found.path, each.bad) for each in entries if each.bad], self.asked)
            forget_cached(partial)
            check_records(partial, self.asked.format, entries)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        self.manifest.written(shard.number, entries, sha256_of(partial), partial.stat().st_size)
        self._name(shard, partial)

    def _fill(self, partial: Path, content: Iterator[Read], length: int) -> list[Entry]:
        writer = records.writer(partial, self.asked.format)
        entries: list[Entry] = []
        count = 0
        try:
            for _ in range(length):
                entry, data = next(content)
                if data is not None:
                    offset = writer.write(example(entry.found.path, data))
                    entry = replace(entry, record=count, offset=offset)
                    count += 1
                entries.append(entry)
                self.tell.done(1, entry.found.size)
        finally:
            writer.close()
        return entries

    def _name(self, shard: Shard, whole: Path) -> None:
        """Give a complete shard its name; one without records gets none."""
        final = self.folder / shard.name
        if not any(entry.bad is None for entry in self.manifest.entries(shard.number)):
            whole.unlink(missing_ok=True)
            self.manifest.state(shard.number, "empty")
            return
        if whole != final:
            if final.exists():
                raise UsageError(f"{final} was not written by fitdoctor", do="move it away")
            whole.rename(final)
        _sync(self.folder)
        self.manifest.state(shard.number, "done")

    def _source_unchanged(self) -> None:
        changed = differences([each.found for each in self.manifest.entries()], listed(self.source, self.asked))
        if changed:
            raise ShardError(
                f"{self.source.name} was changed while it was converted:\n{some(changed)}",
                do="convert it anew, into another folder",
            )

    def _result(self, written: int) -> Result:
        entries = self.manifest.entries()
        good = [each for each in entries if each.bad is None]
        return Result(
            files=len(good),
            bytes=sum(each.found.size for each in good),
            shards=sum(each.state == "done" for each in self.manifest.shards()),
            bad=tuple(each for each in entries if each.bad is not None),
            written=written,
            labels=tuple(sorted({label_of(each.found.path) for each in good})),
        )


def _is(path: Path, shard: Shard) -> bool:
    return path.is_file() and path.stat().st_size == shard.size and sha256_of(path) == shard.sha256


def _sync(folder: Path) -> None:
    """Make a new name in a folder survive the death of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

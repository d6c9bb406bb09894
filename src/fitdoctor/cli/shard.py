"""`fitdoctor shard`: turn a folder or a bucket of small files into record shards."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fitdoctor.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from fitdoctor.shard.asked import Asked, Result, Tell
    from fitdoctor.shard.source import Source

_FORMATS = ("tfrecord", "array_record")


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 1024, found {text!r}")
    return int(text)


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "shard",
        help="turn many small files into a few record files",
        description=(
            "Turn a folder or a bucket of small files into record shards. Every record is read back and compared; a "
            "run that was killed goes on where it stopped when it is started again."
        ),
    )
    parser.add_argument("source", metavar="SRC", help="a folder, or a URL that fsspec can read (s3://bucket/prefix)")
    parser.add_argument("target", metavar="DST", help="a new or empty folder of this machine")
    parser.add_argument("--format", choices=_FORMATS, default="tfrecord", help="default: %(default)s")
    parser.add_argument("--shard-size", metavar="SIZE", default="128MiB", help="default: %(default)s")
    parser.add_argument("--jobs", metavar="N", type=_count, default=16, help="files read at a time (default: 16)")
    parser.add_argument(
        "--include", metavar="GLOB", action="append", default=[], help="take only files like this (may be repeated)"
    )
    parser.add_argument(
        "--exclude", metavar="GLOB", action="append", default=[], help="leave files like this out (may be repeated)"
    )
    parser.add_argument("--seed", metavar="N", type=int, help="shuffle the files (default: sorted by path)")
    parser.add_argument("--skip-bad", action="store_true", help="leave out files that cannot be read, and list them")
    parser.add_argument("--verify", action="store_true", help="only check an earlier result against its manifest")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--option", metavar="KEY=VALUE", action="append", default=[],
        help="hand an option to the store, such as anon=true (may be repeated)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    from fitdoctor.shard.asked import Asked
    from fitdoctor.shard.plan import size_in_bytes
    from fitdoctor.shard.source import opened

    if "://" in args.target:
        raise UsageError(f"expected a folder of this machine as DST, found {args.target}", do="write there, then copy")
    folder = Path(args.target)
    asked = Asked(
        args.format, size_in_bytes(args.shard_size), args.jobs, args.include, args.exclude, args.skip_bad, args.seed
    )
    if args.verify:
        return _verify(folder)
    source = opened(args.source, _options(args.option))
    if args.dry_run:
        return _dry_run(source, folder, asked)
    return _convert(source, folder, asked)


def _options(given: list[str]) -> dict[str, Any]:
    """Read KEY=VALUE; a value that is JSON is taken as that."""
    options: dict[str, Any] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise UsageError(f"expected --option KEY=VALUE, found {each!r}", do="for example: --option anon=true")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


def _convert(source: Source, folder: Path, asked: Asked) -> int:
    from fitdoctor import units
    from fitdoctor.cli.output import talk
    from fitdoctor.shard import convert, reading

    start = time.monotonic()
    with _progress("files") as tell:
        result = convert.convert(source, folder, asked, tell)
    seconds = max(1e-9, time.monotonic() - start)
    before = result.files - result.written
    talk(
        f"{result.files} files ({units.size(result.bytes)}) are in {result.shards} shards, each record read back and "
        f"compared; {result.written} of them now, {result.written / seconds:.0f} files/s"
        + (f", {before} before" if before else "")
    )
    _list_bad(result)
    print(f"# {result.files} files with {len(result.labels)} labels. To read them:\n")
    print(reading.code(folder, asked.format, result.shards), end="")
    return EXIT_OK


def _list_bad(result: Result) -> None:
    from fitdoctor.cli.output import talk
    from fitdoctor.report.characters import harmless

    for entry in result.bad:
        talk(f"left out: {harmless(entry.found.path)}: {entry.bad}")


def _dry_run(source: Source, folder: Path, asked: Asked) -> int:
    from fitdoctor import units
    from fitdoctor.report.characters import harmless
    from fitdoctor.shard import convert
    from fitdoctor.shard.example import label_of

    files = convert.listed(source, asked)
    bad = [each for each in files if each.problem]
    good = [each for each in files if not each.problem]
    numbers = convert.numbered(files, asked)
    print(
        f"{len(good)} files ({units.size(sum(each.size for each in good))}) with "
        f"{len({label_of(each.path) for each in good})} labels would go into {numbers[-1] + 1} shards in {folder}"
    )
    for each in bad:
        print(f"{'left out' if asked.skip_bad else 'bad'}: {harmless(each.path)}: {each.problem}")
    convert.refuse_bad([(each.path, each.problem) for each in bad], asked)
    return EXIT_OK


def _verify(folder: Path) -> int:
    from fitdoctor import units
    from fitdoctor.shard.verify import verify

    with _progress("records") as tell:
        shards, records, size = verify(folder, tell)
    print(f"{records} records in {shards} shards ({units.size(size)}): all as the manifest says")
    return EXIT_OK


@contextlib.contextmanager
def _progress(what: str) -> Iterator[Tell]:
    """Show a bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(), console=Console(file=sys.stderr), disable=not sys.stderr.isatty(), transient=True,
    )  # fmt: skip
    with bar:
        yield _Bar(bar, what)


class _Bar:
    def __init__(self, bar: Any, what: str) -> None:
        self._bar = bar
        self._what = what
        self._files = self._all = 0
        self._task: Any = None

    def total(self, shards: int, files: int, bytes_: int) -> None:
        del shards
        self._all = files
        self._task = self._bar.add_task(f"0 of {files} {self._what}", total=bytes_)

    def done(self, files: int, bytes_: int) -> None:
        self._files += files
        self._bar.update(self._task, advance=bytes_, description=f"{self._files} of {self._all} {self._what}")

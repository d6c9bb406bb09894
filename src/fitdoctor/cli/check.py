"""`fitdoctor check`: what the source alone gives reason to suspect, without running it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fitdoctor.errors import EXIT_OK, EXIT_USAGE, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from fitdoctor.checking.whole import Scope
    from fitdoctor.fixes.suspected import Mended
    from fitdoctor.model import Checked, Spot

EXIT_SUSPECTED = 1
FORMATS = ("text", "json", "sarif", "junit", "github")


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "check",
        help="look for suspicious patterns in source files, without running them",
        description="Look for patterns that may slow a training down, in Python files and notebooks, without running "
        "or importing anything. What it says is a suspicion: whether it costs anything, only a run can tell "
        "(`fitdoctor run`).",
        epilog="exit code: 0 nothing suspected (any more); 1 something suspected; 2 something could not be checked",
    )
    parser.add_argument("paths", metavar="PATHS", nargs="*", help="files, folders or globs (default: this folder)")
    parser.add_argument(
        "--select", metavar="RULES", action="append", help="look for these rules or families only, comma-separated"
    )
    parser.add_argument("--ignore", metavar="RULES", action="append", help="do not look for these")
    parser.add_argument("--exclude", metavar="PATTERN", action="append", help="leave out files and folders like this")
    parser.add_argument(
        "--fix",
        action="store_true",
        help="mend what the source alone shows how to, with the same results; `fitdoctor fix --undo` takes it back",
    )
    parser.add_argument("--diff", action="store_true", help="show what --fix would write, and write nothing")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to tell it (default: text)")
    parser.add_argument(
        "-j", "--jobs", metavar="N", type=_count, help="use N processes for many files (default: all cores)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there instead of to standard output")


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    from fitdoctor.checking.whole import check_files, scope
    from fitdoctor.cli import output
    from fitdoctor.report.characters import harmless

    if args.diff and args.format != "text":
        raise UsageError(f"--diff shows a diff, found --format {args.format} beside it", do="drop one")
    output.check_writable(args.output)
    asked = scope(args.paths, select=_names(args.select), ignore=_names(args.ignore), exclude=args.exclude or ())
    jobs = args.jobs or _cores()
    checked = check_files(asked, jobs=jobs)
    for warning in checked.warnings:
        output.talk(f"warning: {harmless(warning)}")
    for problem in checked.unchecked:
        # A name may hold a line that means something to who reads along, such as GitHub.
        output.talk(f"could not be checked: {harmless(str(problem))}")
    if args.diff:
        _show(checked, asked, args.output)
    else:
        checked = _fixed(checked, asked, jobs) if args.fix else checked
        _tell(checked, args.format, args.output)
    if checked.unchecked:
        return EXIT_USAGE
    return EXIT_SUSPECTED if checked.spots else EXIT_OK


def _show(checked: Checked, asked: Scope, path: str | None) -> None:
    """Show what would be written."""
    from fitdoctor.cli import output
    from fitdoctor.fixes.suspected import mend

    mended = mend(checked, asked.settings)
    _tell_left(mended)
    output.write(mended.diff, path or output.STDOUT)
    output.talk(f"nothing was written; --fix would mend {len(mended.spots)} of {_many(checked.spots)}")


def _fixed(checked: Checked, asked: Scope, jobs: int) -> Checked:
    """Write what can be mended, and look again."""
    from dataclasses import replace

    from fitdoctor.checking.whole import check_files
    from fitdoctor.cli import output
    from fitdoctor.fixes import writing
    from fitdoctor.fixes.suspected import mend

    mended = mend(checked, asked.settings)
    _tell_left(mended)
    if not mended.files:
        return _for_good(checked)
    writing.write(mended.files, mended.files[0].path, [spot.suspicion.rule for spot in mended.spots])
    for change in mended.files:
        output.talk(f"wrote {change.path}")
    output.talk("`fitdoctor fix --undo` takes it back")
    return replace(_for_good(check_files(asked, jobs=jobs)), fixed=mended.spots)


def _for_good(checked: Checked) -> Checked:
    """Promise no more edits: what could be mended was."""
    from dataclasses import replace

    return replace(checked, spots=tuple(replace(spot, fix=None) for spot in checked.spots))


def _tell_left(mended: Mended) -> None:
    from fitdoctor.cli import output

    for where, why in mended.left:
        output.talk(f"not mended: {why}" if where in why else f"not mended: {where}: {why}")


def _many(spots: Sequence[Spot]) -> str:
    return "1 suspicion" if len(spots) == 1 else f"{len(spots):,} suspicions"


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of processes, found {text!r}")
    return int(text)


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _names(given: list[str] | None) -> list[str]:
    return [name.strip() for words in given or () for name in words.split(",") if name.strip()]


def _tell(checked: Checked, form: str, path: str | None) -> None:
    import importlib

    from fitdoctor.cli import output

    renderer = importlib.import_module(f"fitdoctor.report.check_{form}")
    if form == "text" and path in (None, output.STDOUT):
        import sys

        renderer.render(checked, sys.stdout)
    else:
        output.write(renderer.dumps(checked), path or output.STDOUT)

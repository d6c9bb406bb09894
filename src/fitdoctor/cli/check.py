"""`fitdoctor check`: what the source alone gives reason to suspect, without running it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fitdoctor.errors import EXIT_OK, EXIT_USAGE

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from fitdoctor.model import Checked

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
        epilog="exit code: 0 nothing suspected; 1 something suspected; 2 something could not be checked",
    )
    parser.add_argument("paths", metavar="PATHS", nargs="*", help="files, folders or globs (default: this folder)")
    parser.add_argument(
        "--select", metavar="RULES", action="append", help="look for these rules or families only, comma-separated"
    )
    parser.add_argument("--ignore", metavar="RULES", action="append", help="do not look for these")
    parser.add_argument("--exclude", metavar="PATTERN", action="append", help="leave out files and folders like this")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to tell it (default: text)")
    parser.add_argument(
        "-j", "--jobs", metavar="N", type=_count, help="use N processes for many files (default: all cores)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there instead of to standard output")


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    from fitdoctor.checking.whole import check_paths
    from fitdoctor.cli import output

    output.check_writable(args.output)
    checked = check_paths(
        args.paths,
        select=_names(args.select),
        ignore=_names(args.ignore),
        exclude=args.exclude or (),
        jobs=args.jobs or _cores(),
    )
    for warning in checked.warnings:
        output.talk(f"warning: {warning}")
    for problem in checked.unchecked:
        output.talk(f"could not be checked: {problem}")
    _tell(checked, args.format, args.output)
    if checked.unchecked:
        return EXIT_USAGE
    return EXIT_SUSPECTED if checked.spots else EXIT_OK


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

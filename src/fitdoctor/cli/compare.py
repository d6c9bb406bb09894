"""`fitdoctor compare`: two recorded runs side by side, and a gate for continuous integration."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fitdoctor.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

EXIT_SLOWER = 1


def share(text: str) -> float:
    """Read a share in percent."""
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a share such as 5%, found {text!r}")
    return value


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "compare",
        help="put two recorded runs side by side",
        description="Put two recorded runs of a script side by side: step time, what it goes to, findings, memory.",
        epilog="exit code: 0; 1 if B is slower than --fail-over allows, with all of its range; 2 if the runs cannot be "
        "compared",
    )
    parser.add_argument("before", metavar="A", help="a capture, or a report as JSON: the run to compare with")
    parser.add_argument("after", metavar="B", help="the same of the other run")
    parser.add_argument("--html", metavar="FILE", help="also write it as one HTML file that opens from disk")
    parser.add_argument("--json", metavar="FILE", help="also write it as JSON (- is standard output)")
    parser.add_argument(
        "--fail-over", metavar="SHARE", type=share,
        help="exit with 1 if a step became slower by more than this, for example 5%%; what may be noise never fails",
    )  # fmt: skip
    parser.add_argument("--anyway", action="store_true", help="compare runs of other scripts, models or machines too")


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    import sys

    from fitdoctor import pipeline
    from fitdoctor.cli import output
    from fitdoctor.report import comparison
    from fitdoctor.report.html import compare_page

    if args.html == output.STDOUT:
        raise UsageError("--html writes a file, found -", do="name it")
    for path in (args.json, args.html):
        output.check_writable(path)
    found = pipeline.compare_files(args.before, args.after, anyway=args.anyway)
    if args.json:
        output.write(comparison.dumps(found, args.fail_over), args.json)
    if args.html:
        output.write(compare_page.page(found, args.fail_over), args.html)
        output.talk(f"the comparison to look at is {args.html}")
    stream = sys.stderr if args.json == output.STDOUT else sys.stdout
    output.lines(comparison.text(found, args.fail_over, output.columns(stream)), stream)
    failed = args.fail_over is not None and found.slower_than(args.fail_over)
    return EXIT_SLOWER if failed else EXIT_OK

"""`fitdoctor prove`: whether one version of a training really is faster than another, and learns the same."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fitdoctor.errors import EXIT_OK

if TYPE_CHECKING:
    from argparse import _SubParsersAction

EXIT_NOT_PROVED = 1
DEFAULT_BUDGET = 600.0


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    from fitdoctor.cli.run import seconds, whole_number

    parser = subparsers.add_parser(
        "prove",
        usage="fitdoctor prove [options] BEFORE.py AFTER.py [ARGS...]",
        help="measure whether one script trains faster than another, and learns the same",
        description="Run two versions of a training script in turns, each time in a fresh process, stopped before it "
        "saves anything, until their speed-up is known well enough; and compare what they had learnt by then. "
        "What follows AFTER.py is given to both.",
        epilog="exit code: 0 proved faster; 1 no effect, refuted or inconclusive; 2 a script cannot be used",
    )
    parser.add_argument("before", metavar="BEFORE", help="the script as it was")
    parser.add_argument("after", metavar="AFTER", help="the script as it is to be")
    parser.add_argument("args", metavar="ARGS", nargs=argparse.REMAINDER, help="arguments of both scripts")
    parser.add_argument(
        "--steps", metavar="N", type=whole_number, help="watch N steady steps of each run (default: 200)"
    )
    parser.add_argument(
        "--budget", metavar="S", type=seconds, default=DEFAULT_BUDGET, help="take about S seconds in all (default: 600)"
    )
    parser.add_argument(
        "--may-change", action="store_true", help="the change may learn something else: tell it, do not refute for it"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the proof as JSON (- is standard output)")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    import sys

    from fitdoctor import pipeline
    from fitdoctor.cli import output
    from fitdoctor.cli.progress import Progress
    from fitdoctor.cli.run import script
    from fitdoctor.report import proof as rendered

    output.check_writable(args.json)
    scripts = [script(each) for each in (args.before, args.after)]
    found = pipeline.prove_scripts(
        *scripts,
        args=tuple(args.args),
        steps=args.steps,
        budget=args.budget,
        may_change=args.may_change,
        tell=Progress(sys.stderr, quiet=args.quiet),
    )
    if args.json:
        output.write(rendered.dumps(found), args.json)
    print(rendered.text(found), file=sys.stderr if args.json == output.STDOUT else sys.stdout)
    return EXIT_OK if found.verdict == "PROVED" else EXIT_NOT_PROVED

"""`fitdoctor diagnose`: what slowed a recorded run down, later, anywhere, without a framework."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fitdoctor.errors import EXIT_OK

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "diagnose",
        help="diagnose a recorded run again",
        description="Diagnose a recorded run again, on any machine, without a deep-learning framework.",
    )
    parser.add_argument("capture", metavar="CAPTURE", nargs="?", help="a capture file (default: the newest one)")
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON (- is standard output)")


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    import sys

    from fitdoctor import pipeline
    from fitdoctor.cli import output
    from fitdoctor.report import json

    output.check_writable(args.json)
    report, source_of = pipeline.open_capture(output.chosen_capture(args.capture))
    if args.json:
        output.write(json.dumps(report), args.json)
        if args.json != output.STDOUT:
            output.talk(f"wrote the report to {args.json}")
    output.show(report, source_of, sys.stderr if args.json == output.STDOUT else sys.stdout)
    return EXIT_OK

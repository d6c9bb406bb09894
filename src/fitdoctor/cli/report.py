"""`fitdoctor report`: one report of a recorded run, in one format, to one place."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fitdoctor.errors import EXIT_OK

if TYPE_CHECKING:
    from argparse import _SubParsersAction

FORMATS = ("terminal", "json", "html", "chrome")


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "report",
        help="write the report of a recorded run",
        description="Write the report of a recorded run in one format to one place.",
    )
    parser.add_argument("capture", metavar="CAPTURE", nargs="?", help="a capture file (default: the newest one)")
    parser.add_argument(
        "--format", choices=FORMATS, default="terminal", help="(default: terminal); chrome: a trace for Perfetto"
    )
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="where to (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    import io
    import sys

    from fitdoctor import pipeline
    from fitdoctor.cli import output
    from fitdoctor.report import json

    output.check_writable(args.output)
    chosen = output.chosen_capture(args.capture)
    if args.format == "html":
        output.write(pipeline.open_page(chosen)[0], args.output)
        return _done(args.output)
    if args.format == "chrome":
        return _chrome(chosen, args.output)
    report, source_of = pipeline.open_capture(chosen)
    if args.format == "json":
        output.write(json.dumps(report), args.output)
    elif args.output == output.STDOUT:
        output.show(report, source_of, sys.stdout)
    else:
        page = io.StringIO()
        output.show(report, source_of, page)
        output.write(page.getvalue(), args.output)
    return _done(args.output)


def _done(path: str) -> int:
    from fitdoctor.cli import output

    if path != output.STDOUT:
        output.talk(f"wrote the report to {path}")
    return EXIT_OK


def _chrome(capture: Path, path: str) -> int:
    from fitdoctor.cli import output
    from fitdoctor.report import chrome

    output.write_pieces(chrome.pieces(capture), path)
    if path != output.STDOUT:
        output.talk(f"wrote the trace to {path}; open it at ui.perfetto.dev or in chrome://tracing")
    return EXIT_OK

"""`fitdoctor input`: the input pipeline alone, stage by stage, of a script or of a run that was recorded.

Options before the script are ours; everything after it belongs to the script, untouched.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fitdoctor.cli import run as running
from fitdoctor.errors import EXIT_OK, MissingEvidence, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_TAKEN = ("--steps", "--budget", "--no-lab", "--capture", "--redact", "--quiet")
"""Options of `fitdoctor run` that are about running a script."""
OPTIONS: dict[str, dict[str, Any]] = {name: running.OPTIONS[name] for name in (*_TAKEN, "--json")}


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "input",
        usage="fitdoctor input [options] SCRIPT [ARGS...]\n       fitdoctor input [options] -m MODULE [ARGS...]\n"
        "       fitdoctor input [--json FILE] [CAPTURE]",
        help="show the input pipeline, stage by stage",
        description="Run an unmodified training script as `fitdoctor run` does and show its input alone: what each "
        "stage costs, who waits for whom, what AUTOTUNE chose. With a capture, or with nothing (the newest capture), "
        "show that of a recorded run.",
        epilog="exit code: 0, or the script's own; 4 if no training was seen",
    )
    for name, details in OPTIONS.items():
        parser.add_argument(name, **details)


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell our options from the script (or `-m` and its module, or the capture) and everything after it."""
    return running.split(argv, OPTIONS)


def run(args: argparse.Namespace, launcher: Any = None) -> int:
    """Carry it out; `launcher` stands in for `fitdoctor.capture.launch`."""
    from fitdoctor.cli import output

    output.check_writable(args.json)
    if not args.rest or _is_capture(args.rest[0]):
        _refuse_with_capture(args)
        return _show(output.chosen_capture(args.rest[0] if args.rest else None), args.json)
    ended = running.observe(args, launcher, command="input", sooner=("prefixes",))
    if ended.message:
        output.talk(ended.message)
    if ended.capture is not None:
        output.talk(f"the capture is {ended.capture}")
    if ended.capture is not None and ended.training_seen:
        _show(ended.capture, args.json)
    return running.exit_code(ended, whole=False)


def _is_capture(word: str) -> bool:
    from fitdoctor.capture.store import SUFFIX

    return word.endswith(SUFFIX) and not running.is_module_flag(word)


def _refuse_with_capture(args: argparse.Namespace) -> None:
    """Say what means nothing where nothing is run."""
    if len(args.rest) > 1:
        raise UsageError(f"expected nothing after the capture, found {args.rest[1]!r}", do="drop it")
    given = [name for name in _TAKEN if getattr(args, name.removeprefix("--").replace("-", "_"))]
    if given:
        raise UsageError(f"{given[0]} is about running a script, and none was named", do="name a script, or drop it")


def _show(path: Path, json_path: str | None) -> int:
    import sys

    from rich.console import Console

    from fitdoctor import pipeline
    from fitdoctor.cli import output
    from fitdoctor.errors import EXIT_NO_TRAINING
    from fitdoctor.report import input as page
    from fitdoctor.report import json

    try:
        view, source_of = pipeline.open_input(path)
    except MissingEvidence as error:
        output.talk(f"there is no input to show: {error}")
        return EXIT_NO_TRAINING
    if json_path:
        output.write(json.dumps_input(view), json_path)
        if json_path != output.STDOUT:
            output.talk(f"wrote the input to {json_path}")
    stream = sys.stderr if json_path == output.STDOUT else sys.stdout
    page.render(view, Console(file=stream, highlight=False), source_of)
    stream.flush()
    return EXIT_OK

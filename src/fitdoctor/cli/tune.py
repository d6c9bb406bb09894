"""`fitdoctor tune`: search the few settings that interact, with the script as it is, and prove the best."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fitdoctor.cli import run as running
from fitdoctor.errors import EXIT_NO_TRAINING, EXIT_OK, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

EXIT_NOT_PROVED = 1
EXIT_INTERRUPTED = 130
DEFAULT_TRIALS = 16
DEFAULT_BUDGET = 1200.0
PLACES = ("local", "ray")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of trials above zero, found {text!r}")
    return int(text)


_FLAG: dict[str, Any] = {"action": "store_true"}
OPTIONS: dict[str, dict[str, Any]] = {
    "--trials": {
        "metavar": "N",
        "type": _count,
        "default": DEFAULT_TRIALS,
        "help": "try N settings beside the script's own (default: 16; all of them where there are fewer)",
    },
    "--budget": {
        "metavar": "S",
        "type": running.seconds,
        "default": DEFAULT_BUDGET,
        "help": "take about S seconds in all (default: 1200), the search at most 60 %% of it, the proof the rest",
    },
    "--unsafe": _FLAG
    | {"help": "also search what may change results: batch size with the learning rate, precision, backend"},
    "--only": {"metavar": "KNOB", "action": "append", "help": "turn only this (may be repeated)"},
    "--steps": {
        "metavar": "N",
        "type": running.whole_number,
        "help": "watch N steady steps of each run (default: 200)",
    },
    "--on": {"metavar": "PLACE", "default": "local", "help": "where to run: local (default) or ray, a Ray cluster"},
    "--address": {"metavar": "ADDRESS", "help": "with --on ray: of which cluster (default: the one that is running)"},
    "--resume": _FLAG | {"help": "go on with the last search of this very command"},
    "--json": {"metavar": "FILE", "help": "also write the trials and the proof as JSON (- is standard output)"},
    "--quiet": running.OPTIONS["--quiet"],
}


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "tune",
        usage="fitdoctor tune [options] SCRIPT [ARGS...]\n       fitdoctor tune [options] -m MODULE [ARGS...]",
        help="search the settings that interact, and prove the best",
        description="Run an unmodified training script with other settings than its own, each time in a fresh process "
        "that is stopped before it saves anything; stop early what is hopeless; then prove the fastest against the "
        "script as it is. Nothing is written to the script: how to do that is told.",
        epilog="exit code: 0 faster settings were proved, or the script's own are the best; 1 nothing was proved; "
        "4 no training was seen",
    )
    for name, details in OPTIONS.items():
        parser.add_argument(name, **details)


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell our options from the script and what is given to it."""
    return running.split(argv, OPTIONS)


def check_knobs(names: Sequence[str], *, unsafe: bool) -> None:
    """Refuse names that are no knobs, and those that need consent."""
    import difflib

    from fitdoctor.tune.settings import NAMES, SAFETY

    for name in names:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            raise UsageError(
                f"there is nothing to turn that is called {name!r}",
                do=f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(NAMES)}",
            )
        if SAFETY[name] != "same" and not unsafe:
            raise UsageError(f"{name} may change what is learnt", do="consent to that: --unsafe")


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    from rich.console import Console

    from fitdoctor import pipeline
    from fitdoctor.capture.launch import Options
    from fitdoctor.cli import output
    from fitdoctor.cli.progress import Progress
    from fitdoctor.report import tuned
    from fitdoctor.tune.tune import NoTraining, Wanted

    if args.on not in PLACES:
        raise UsageError(f"expected --on local or --on ray, found {args.on!r}", do="take one of them")
    if args.address and args.on != "ray":
        raise UsageError("--address is of a Ray cluster: it needs --on ray", do="add --on ray, or drop it")
    check_knobs(args.only or (), unsafe=args.unsafe)
    output.check_writable(args.json)
    target, module, arguments = running.name_and_args(args.rest, "tune")
    wanted = Wanted(
        Options(target=target, module=module, args=arguments, steps=args.steps),
        trials=args.trials,
        budget=args.budget,
        unsafe=args.unsafe,
        only=frozenset(args.only or ()),
        resume=args.resume,
    )
    try:
        found = pipeline.tune_script(
            wanted, on=args.on, address=args.address, tell=Progress(sys.stderr, quiet=args.quiet)
        )
    except NoTraining as error:
        output.talk(str(error))
        return EXIT_NO_TRAINING
    if args.json:
        output.write(tuned.dumps(found), args.json)
    console = Console(highlight=False, stderr=args.json == output.STDOUT)
    tuned.render(found, console)
    console.file.flush()
    if found.interrupted:
        output.talk("interrupted; `fitdoctor tune --resume` with the same options goes on")
        return EXIT_INTERRUPTED
    return EXIT_OK if found.proved or found.winner is None else EXIT_NOT_PROVED

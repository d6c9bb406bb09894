"""`fitdoctor cure`: run, fix, prove, keep what is proved: the whole loop in one command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fitdoctor.cli import run as running
from fitdoctor.cli.proving import BUDGET
from fitdoctor.errors import EXIT_NO_TRAINING, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_FLAG: dict[str, Any] = {"action": "store_true"}
OPTIONS: dict[str, dict[str, Any]] = {
    "--dry-run": _FLAG | {"help": "prove, but write nothing"},
    "--unsafe": _FLAG | {"help": "also try fixes that may change results; what they changed is told"},
    "--only": {"metavar": "RULE", "action": "append", "help": "only the fixes of this rule (may be repeated)"},
    "--one-by-one": _FLAG | {"help": "prove each fix by itself too, and drop those that do not help"},
    "--steps": running.OPTIONS["--steps"],
    "--budget": {
        "metavar": "S",
        "type": running.seconds,
        "default": BUDGET,
        "help": "take about S seconds to prove (default: 600); finding causes takes a minute or two before that",
    },
    "--project": {"metavar": "FOLDER", "help": "where files may be changed (default: the script's own project)"},
    "--fresh": _FLAG | {"help": "run the script even if a capture of it as it is now is there"},
    "--json": {"metavar": "FILE", "help": "also write the proofs as JSON (- is standard output)"},
    "--quiet": running.OPTIONS["--quiet"],
}


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "cure",
        usage="fitdoctor cure [options] SCRIPT [ARGS...]\n       fitdoctor cure [options] -m MODULE [ARGS...]",
        help="find what slows a script down, fix it, prove it, keep what is proved",
        description="Run a training script, turn what slows it down into edits, run it with and without them in turns, "
        "and write those that were proved to be faster and to learn the same. `fitdoctor fix --undo` takes them back.",
        epilog="exit code: 0 something was proved, or nothing needs fixing; 1 nothing was proved; 4 no training was "
        "seen",
    )
    for name, details in OPTIONS.items():
        parser.add_argument(name, **details)


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell our options from the script and what is given to it."""
    return running.split(argv, OPTIONS)


def check_rules(names: Sequence[str]) -> None:
    """Refuse names that are no rules."""
    import difflib

    from fitdoctor.rules import all_rules

    known = [rule.name for rule in all_rules()] if names else []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                f"there is no rule {name!r}",
                do=f"did you mean {near[0]!r}?" if near else "list them with `fitdoctor rules`",
            )


def diagnosed(args: argparse.Namespace, *, command: str) -> Path | None:
    """Return a capture of the script as it is now, from before or made now; None where no training was seen."""
    from fitdoctor.cli import fix, output

    running.name_and_args(args.rest, command)
    # What is said about steps and time is about the proof: the diagnosis takes its own.
    own = {"whole": False, "steps": None, "budget": None, "no_lab": False, "capture": None, "redact": False}
    words = argparse.Namespace(**{**vars(args), **own, "backends": False, "json": None})
    kept = None if getattr(args, "fresh", False) else fix.kept(args.rest)
    if kept is not None:
        output.talk(f"reading {kept}, a capture of the script as it is now")
        return kept
    ended = running.observe(words, command=command)
    if ended.message:
        output.talk(ended.message)
    if ended.interrupted:
        raise KeyboardInterrupt  # who stops it wants nothing proved and nothing written
    return ended.capture if ended.training_seen else None


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    from rich.console import Console

    from fitdoctor.cli import output, proving
    from fitdoctor.fixes.plan import Wanted
    from fitdoctor.report import cured

    check_rules(args.only or ())
    output.check_writable(args.json)
    capture = diagnosed(args, command="cure")
    if capture is None:
        return EXIT_NO_TRAINING
    wanted = Wanted(args.unsafe, frozenset(args.only or ()), args.project)
    plan, outcome = proving.proved(capture, wanted, args, one_by_one=args.one_by_one)
    if args.json:
        output.write(cured.dumps(plan, outcome), args.json)
    console = Console(highlight=False, stderr=args.json == output.STDOUT)
    cured.render(plan, outcome, console)
    console.file.flush()
    return proving.conclude(plan, outcome, write=not args.dry_run, unwritten="--dry-run")

"""`fitdoctor prove`: whether one version of a training really is faster than another, and learns the same.

The other version is a script of its own, or the same one with fixes that are not written.  Options before the script
are ours; everything after the scripts belongs to them.
"""

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
DEFAULT_BUDGET = 600.0
_FLAG: dict[str, Any] = {"action": "store_true"}
OPTIONS: dict[str, dict[str, Any]] = {
    "--fix": {
        "metavar": "RULE",
        "action": "append",
        "help": "prove SCRIPT against SCRIPT with the fix of this rule, which is not written (may be repeated)",
    },
    "--steps": {
        "metavar": "N",
        "type": running.whole_number,
        "help": "watch N steady steps of each run (default: 200)",
    },
    "--budget": {
        "metavar": "S",
        "type": running.seconds,
        "default": DEFAULT_BUDGET,
        "help": "take about S seconds in all (default: 600)",
    },
    "--may-change": _FLAG | {"help": "the change may learn something else: tell it, do not refute for it"},
    "--json": {"metavar": "FILE", "help": "also write the proof as JSON (- is standard output)"},
    "--quiet": _FLAG | {"help": "show no progress"},
}


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "prove",
        usage="fitdoctor prove [options] BEFORE.py AFTER.py [ARGS...]\n"
        "       fitdoctor prove [options] --fix RULE SCRIPT [ARGS...]\n"
        "       fitdoctor prove SCRIPT --fix RULE [options] [ARGS...]",
        help="measure whether one script trains faster than another, and learns the same",
        description="Run two versions of a training script in turns, each time in a fresh process, stopped before it "
        "saves anything, until their speed-up is known well enough; and compare what they had learnt by then. "
        "What follows AFTER.py is given to both. With --fix the other version is the script with a fix of the newest "
        "diagnosis of it (it is run first where there is none); no file is changed.",
        epilog="exit code: 0 proved faster; 1 no effect, refuted or inconclusive; 2 a script cannot be used; 4 no "
        "training was seen to take fixes from",
    )
    for name, details in OPTIONS.items():
        parser.add_argument(name, **details)


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell our options from the scripts and what is given to them.

    `SCRIPT --fix RULE` is understood too: where the second script would stand, an option can only be ours.
    """
    ours, theirs = running.split(argv, OPTIONS)
    first = 2 if theirs[:1] == ["-m"] else 1
    after = theirs[first:]
    at = 0
    while at < len(after) and after[at].partition("=")[0] in OPTIONS:
        at += 2 if running.takes_value(after[at], OPTIONS) else 1
    if not any(word.partition("=")[0] == "--fix" for word in after[:at]):
        return ours, theirs
    return [*ours, *after[:at]], [*theirs[:first], *after[at:]]


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    from fitdoctor import pipeline
    from fitdoctor.cli import output
    from fitdoctor.cli.progress import Progress
    from fitdoctor.report import proof as rendered

    output.check_writable(args.json)
    if args.fix:
        return _prove_fixes(args)
    if len(args.rest) < 2:
        raise UsageError(
            f"expected two scripts, found {len(args.rest)}",
            do="give the script before and after, or one script and --fix RULE",
        )
    found = pipeline.prove_scripts(
        running.script(args.rest[0]),
        running.script(args.rest[1]),
        args=tuple(args.rest[2:]),
        steps=args.steps,
        budget=args.budget,
        may_change=args.may_change,
        tell=Progress(sys.stderr, quiet=args.quiet),
    )
    if args.json:
        output.write(rendered.dumps(found), args.json)
    output.lines(rendered.text(found), sys.stderr if args.json == output.STDOUT else sys.stdout)
    return EXIT_OK if found.verdict == "PROVED" else EXIT_NOT_PROVED


def _prove_fixes(args: argparse.Namespace) -> int:
    """Prove fixes of a script that are not written."""
    from fitdoctor import pipeline
    from fitdoctor.cli import cure, output
    from fitdoctor.cli.progress import Progress
    from fitdoctor.fixes.plan import Wanted
    from fitdoctor.report import proof as rendered

    cure.check_rules(args.fix)
    if not args.rest:
        raise UsageError("expected a script to prove a fix of", do="for example: fitdoctor prove --fix RULE train.py")
    capture = cure.diagnosed(args, command="prove")
    if capture is None:
        return EXIT_NO_TRAINING
    # A fix that is named is wanted, also where it may change results: the proof tells what it changed.
    wanted = Wanted(unsafe=True, only=frozenset(args.fix), written=False)
    plan, outcome = pipeline.prove_fixes(
        capture, wanted, steps=args.steps, budget=args.budget, tell=Progress(sys.stderr, quiet=args.quiet)
    )
    if outcome is None:
        raise UsageError(
            "nothing to prove: " + ("; ".join(f"{each.rule}: {each.why}" for each in plan.items) or "not found"),
            do="`fitdoctor fix` shows what was found and what can be written",
        )
    found = outcome.tried[0].proof
    if args.json:
        output.write(rendered.dumps(found), args.json)
    output.lines(rendered.text(found), sys.stderr if args.json == output.STDOUT else sys.stdout)
    return EXIT_OK if found.verdict == "PROVED" else EXIT_NOT_PROVED

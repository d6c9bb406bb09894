"""`fitdoctor fix`: what was found becomes a diff, with --prove a measured one, with --apply an edit that can be undone.

Options before the script are ours; everything after it belongs to the script, untouched.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fitdoctor.cli import run as running
from fitdoctor.errors import EXIT_OK, EXIT_USAGE, FitdoctorError, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from rich.console import Console

    from fitdoctor.fixes.plan import Plan, Wanted

_TAKEN = ("--steps", "--budget", "--no-lab", "--capture", "--quiet")
"""Options of `fitdoctor run` that are about running a script."""
_OF_PROOF = ("--steps", "--budget", "--quiet")
"""Those of them that are about the proof, where there is one."""
_OWN = ("--apply", "--prove", "--unsafe", "--only", "--interactive", "--undo")
"""Options that say what becomes of a fix."""
_LOOKED_AT = 20
"""So many captures of scripts of that name are opened to find one of the very command."""
_FLAG: dict[str, Any] = {"action": "store_true"}
OPTIONS: dict[str, dict[str, Any]] = {
    "--apply": _FLAG | {"help": "write the fixes into the files (default: only show them)"},
    "--prove": _FLAG
    | {
        "help": "run the script with and without them in turns first (--steps, --budget: of these runs); with --apply "
        "only what is proved is written"
    },
    "--unsafe": _FLAG | {"help": "also those that may change results"},
    "--only": {"metavar": "RULE", "action": "append", "help": "only the fixes of this rule (may be repeated)"},
    "--interactive": _FLAG | {"help": "ask for each fix, then write those you agreed to"},
    "--undo": _FLAG | {"help": "take the last fix back (of SCRIPT, if one is named), byte for byte"},
    "--project": {"metavar": "FOLDER", "help": "where files may be changed (default: the script's own project)"},
    "--fresh": _FLAG | {"help": "run the script even if a capture of it as it is now is there"},
    **{name: running.OPTIONS[name] for name in _TAKEN},
}


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "fix",
        usage="fitdoctor fix [options] [CAPTURE]\n       fitdoctor fix [options] SCRIPT [ARGS...]\n"
        "       fitdoctor fix [options] -m MODULE [ARGS...]\n       fitdoctor fix --undo [SCRIPT]",
        help="show what to change as a diff, write it, undo it",
        description="Show what a diagnosis says as diffs of the source, and with --apply write them. Takes the newest "
        "capture, or that of SCRIPT as it is now, or runs it first as `fitdoctor run` does. With --prove they are "
        "measured before. What is written can be undone.",
        epilog="exit code: 0; 1 if nothing was proved; 2 if something was to be written and nothing could be; 4 if no "
        "training was seen",
    )
    for name, details in OPTIONS.items():
        parser.add_argument(name, **details)
    parser.set_defaults(json=None, redact=False)


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell our options from the script (or `-m` and its module, or the capture) and everything after it."""
    ours, theirs = running.split(argv, OPTIONS)
    first = 2 if theirs[:1] == ["-m"] else 1
    misplaced = theirs[first].partition("=")[0] if len(theirs) > first else ""
    # Who types `fix train.py --undo` does not want to train with it.
    if misplaced in _OWN and "--" not in argv[: len(ours) + 1]:
        raise UsageError(
            f"{misplaced} stands after the script, whose own arguments stand there",
            do=f"type it before the script; if the script itself is to be given it: "
            f"fitdoctor fix -- {theirs[0]} {misplaced}",
        )
    return ours, theirs


def run(args: argparse.Namespace, launcher: Any = None) -> int:
    """Carry it out; `launcher` stands in for `fitdoctor.capture.launch`."""
    _check(args)
    if args.undo:
        return _undo(args)
    path, code = _capture(args, launcher)
    if path is None:
        return code
    from fitdoctor.fixes.plan import Wanted

    return _fix(path, Wanted(args.unsafe, frozenset(args.only or ()), args.project), args)


def _check(args: argparse.Namespace) -> None:
    from fitdoctor.cli import cure

    cure.check_rules(args.only or ())
    if not args.undo:
        return
    given = _given(args, "--apply", "--prove", "--unsafe", "--only", "--interactive", "--fresh", *_TAKEN)
    if given:
        raise UsageError(f"--undo takes a fix back: {given[0]} means nothing beside it", do="drop one")
    if len(args.rest) > 1:
        raise UsageError(f"expected nothing after the script, found {args.rest[1]!r}", do="drop it")


def _given(args: argparse.Namespace, *names: str) -> list[str]:
    """Return which of these options were given."""
    return [name for name in names if getattr(args, name.removeprefix("--").replace("-", "_"))]


# --- where the findings come from ---------------------------------------------------------------------------


def _capture(args: argparse.Namespace, launcher: Any) -> tuple[Path | None, int]:
    """Return the capture to read, or none and the exit code."""
    from fitdoctor.capture.store import SUFFIX
    from fitdoctor.cli import output

    if not args.rest or (args.rest[0].endswith(SUFFIX) and not running.is_module_flag(args.rest[0])):
        given = _given(args, *(name for name in (*_TAKEN, "--fresh") if not (args.prove and name in _OF_PROOF)))
        if given:
            raise UsageError(f"{given[0]} is about running a script, and none was named", do="name one, or drop it")
        if len(args.rest) > 1:
            raise UsageError(f"expected nothing after the capture, found {args.rest[1]!r}", do="drop it")
        return output.chosen_capture(args.rest[0] if args.rest else None), EXIT_OK
    found = None if args.fresh or args.capture else kept(args.rest)
    if found is not None:
        output.talk(f"reading {found}, a capture of the script as it is now (--fresh runs it again)")
        return found, EXIT_OK
    # What is said about steps and time is about the proof, then: the diagnosis takes its own.
    own = {"steps": None, "budget": None} if args.prove else {}
    ended = running.observe(argparse.Namespace(**{**vars(args), **own}), launcher, command="fix")
    if ended.message:
        output.talk(ended.message)
    if ended.capture is not None:
        output.talk(f"the capture is {ended.capture}")
    if ended.interrupted and (args.prove or args.apply or args.interactive):
        raise KeyboardInterrupt  # who stops it wants nothing proved and nothing written
    code = running.exit_code(ended, whole=False)
    print()  # the script may have been stopped in the middle of a line
    return (ended.capture if ended.training_seen else None), code


def kept(words: Sequence[str]) -> Path | None:
    """Return the newest capture of this very command, if none of its files has changed since.

    On another backend, or with another number of threads, it is another training: what slows that down is not known.
    """
    import hashlib

    from fitdoctor.capture import places, store
    from fitdoctor.probes.host import settings

    name = words[1].rpartition(".")[2] if words[0] == "-m" and len(words) > 1 else words[0]
    for path in places.newest_of(name)[:_LOOKED_AT]:
        try:
            capture = store.read(path)
        except FitdoctorError:
            continue
        same = capture.meta.get("command") == list(words) and capture.meta.get("cwd") == os.getcwd()
        same = same and (capture.meta.get("environment") or {}).get("settings", settings()) == settings()
        ended = (capture.meta.get("exit") or {}).get("reason") != "running"
        as_written = not capture.meta.get("overlay")
        if not (same and ended and as_written and capture.sources and capture.steps):
            continue
        for source in capture.sources:
            try:
                data = Path(source.path).read_bytes()
            except OSError:
                return None
            if hashlib.sha256(data).hexdigest() != source.sha256:
                return None
        return path
    return None


# --- what becomes of them -----------------------------------------------------------------------------------


def _fix(path: Path, wanted: Wanted, args: argparse.Namespace) -> int:
    from rich.console import Console

    from fitdoctor import pipeline
    from fitdoctor.cli import output
    from fitdoctor.fixes import writing
    from fitdoctor.report import fixes as page

    plan = pipeline.plan_fixes(path, wanted)
    console = Console(highlight=False)
    if args.interactive:
        wanted = _asked(plan, wanted, console)
        plan = pipeline.plan_fixes(path, wanted)
    else:
        page.render(plan.items, console)
    console.file.flush()
    if not plan.items:
        if wanted.only:
            output.talk("nothing was found by these rules")
        else:
            # Nothing may be slow, or nothing was seen.
            output.talk(f"there is nothing to fix. {pipeline.diagnose_file(path).headline}")
        return EXIT_OK
    write = args.apply or args.interactive
    if args.prove and plan.ready:
        return _prove(path, wanted, args, console, write=write)
    if not write:
        _suggest(plan)
        return EXIT_OK
    journal = writing.apply(plan)
    if journal is None:
        return _nothing_written(plan)
    names = ", ".join(journal.rules)
    for change in plan.files:
        output.talk(f"wrote {change.path}")
    output.talk(f"{names}: written. `fitdoctor fix --undo` takes it back; `fitdoctor prove` measures what it gives")
    return EXIT_OK


def _prove(path: Path, wanted: Wanted, args: argparse.Namespace, console: Console, *, write: bool) -> int:
    """Prove what was shown, as `fitdoctor cure` does, and write what is kept of it."""
    from fitdoctor.cli import proving
    from fitdoctor.report import cured

    plan, outcome = proving.proved(path, wanted, args)
    if outcome is not None:
        cured.verdict(outcome, console)
        console.file.flush()
    return proving.conclude(plan, outcome, write=write, unwritten="--apply writes what is proved")


def _suggest(plan: Plan) -> None:
    from fitdoctor.cli import output

    if plan.ready:
        count = "1 fix" if len(plan.ready) == 1 else f"{len(plan.ready)} fixes"
        output.talk(f"nothing was written; `fitdoctor fix --apply` writes {count}, and can be undone")
    else:
        output.talk("nothing was written, and nothing can be without you: see above")


def _nothing_written(plan: Plan) -> int:
    from fitdoctor.cli import output
    from fitdoctor.fixes import journal

    refused = [each for each in plan.items if each.state == "refused"]
    paths = {edit.path for each in refused for edit in each.fix.edits}
    done = next(
        (each for each in journal.open_ones(readable=True) if {entry.path for entry in each.entries} & paths), None
    )
    if done is not None and all(journal.is_applied(done, path) for path in paths):
        output.talk(f"{', '.join(done.rules)}: written before; nothing was changed now")
        return EXIT_OK
    output.talk("nothing was written" + (f": {refused[0].why}" if refused else ""))
    return EXIT_USAGE if refused else EXIT_OK


def _asked(plan: Plan, wanted: Wanted, console: Console) -> Wanted:
    """Show each fix that could be written, and ask."""
    from dataclasses import replace

    from fitdoctor.report import fixes as page

    refused: set[int] = set()
    leaving = everything = False
    for number, item in enumerate(plan.items, 1):
        page.render_one(item, console, number)
        console.print()
        if item.state != "ready" or everything:
            continue
        answer = "q" if leaving else _answer()
        everything = answer == "a"
        leaving = leaving or answer == "q"
        if answer in ("n", "q"):
            refused.add(item.place)
    return replace(wanted, refused=frozenset(refused))


def _answer() -> str:
    """Ask until the answer is one; the end of the input is no."""
    while True:
        sys.stdout.flush()
        sys.stderr.write("write this? [y]es, [n]o, [a]ll that follow, [q]uit: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            sys.stderr.write("\n")
            return "q"
        answer = line.strip().lower()[:1]
        if answer and answer in "ynaq":
            return answer


def _undo(args: argparse.Namespace) -> int:
    from fitdoctor.cli import output
    from fitdoctor.fixes import writing

    undone = writing.undo(args.rest[0] if args.rest else None)
    for path in undone.restored:
        output.talk(f"restored {path}")
    for path in undone.untouched:
        output.talk(f"{path} was as before already")
    output.talk(f"{', '.join(undone.journal.rules)}: undone")
    return EXIT_OK

"""`fitdoctor run`: run a script under observation, then say what slows it down.

Options before the script are ours; everything after it belongs to the script, untouched.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fitdoctor.errors import EXIT_NO_TRAINING, EXIT_OK, FitdoctorError, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def whole_number(text: str) -> int:
    """Read a number of steps."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of steps above zero, found {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Read a number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above zero, found {text!r}")
    return value


_FLAG: dict[str, Any] = {"action": "store_true"}
OPTIONS: dict[str, dict[str, Any]] = {
    "--whole": _FLAG | {"help": "only observe: let the script run to its end, and save what it saves"},
    "--steps": {
        "metavar": "N",
        "type": whole_number,
        "help": "stop after N steady steps (default: when they suffice)",
    },
    "--budget": {
        "metavar": "S",
        "type": seconds,
        "help": "take S seconds: to watch the training, and to experiment with it afterwards (default: 60)",
    },
    "--backends": _FLAG | {"help": "also run the script on the other Keras backends that are installed, and compare"},
    "--with-fixes": _FLAG
    | {"help": "run it with the fixes of its last diagnosis that leave results as they are; no file is changed"},
    "--no-lab": _FLAG | {"help": "make no experiments once enough was watched"},
    "--capture": {
        "metavar": "FILE",
        "help": "where to keep what was observed (default: a new file in your state folder)",
    },
    "--json": {
        "metavar": "FILE",
        "help": "also write the report as JSON (-: to standard output, the script's own to standard error)",
    },
    "--html": {"metavar": "FILE", "help": "also write the report as one HTML file that opens from disk"},
    "--redact": _FLAG | {"help": "keep no source lines, and neither paths nor arguments in clear, in the capture"},
    "--quiet": _FLAG | {"help": "show no progress"},
}


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "run",
        usage="fitdoctor run [options] SCRIPT [ARGS...]\n       fitdoctor run [options] -m MODULE [ARGS...]",
        help="run a training script and say what slows it down",
        description="Run an unmodified training script long enough to see where its time goes, stop it "
        "before it saves anything, and say what slows it down. What follows SCRIPT belongs to the script.",
        epilog="exit code: 0, or the script's own; 4 if it ended by itself and no training was seen",
    )
    for name, details in OPTIONS.items():
        parser.add_argument(name, **details)


def split(argv: Sequence[str], options: Mapping[str, Mapping[str, Any]] = OPTIONS) -> tuple[list[str], list[str]]:
    """Tell our options from the script (or `-m` and its module) and everything after it."""
    at = 0
    while at < len(argv):
        word = argv[at]
        if word == "--":
            return list(argv[:at]), list(argv[at + 1 :])
        if word == "-" or not word.startswith("-") or is_module_flag(word):
            return list(argv[:at]), list(argv[at:])
        at += 2 if takes_value(word, options) else 1
    return list(argv), []


def takes_value(word: str, options: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether an option's value is the next word."""
    return word in options and options[word].get("action", "append") == "append"


def is_module_flag(word: str) -> bool:
    """Tell `-m`, with or without its module, from our options."""
    return word.startswith("-m") and not word.startswith("--")


def name_and_args(rest: Sequence[str], command: str) -> tuple[str, bool, tuple[str, ...]]:
    """Return the script or module, whether it is a module, and its arguments."""
    if not rest:
        raise UsageError("expected a script to run", do=f"for example: fitdoctor {command} train.py --epochs 5")
    first, *others = rest
    if is_module_flag(first):
        words = [first[2:], *others] if len(first) > 2 else others
        if not words:
            raise UsageError("expected a module after -m", do=f"for example: fitdoctor {command} -m package.train")
        return words[0], True, tuple(words[1:])
    return script(first), False, tuple(others)


def script(name: str) -> str:
    """Return the name of a script that is there."""
    if not os.path.exists(name):
        raise UsageError(f"expected a script, found no file {name!r}", do=_nearest_script(name))
    if not os.access(name, os.R_OK):
        raise UsageError(f"the script {name} cannot be read", do="check its permissions")
    return name


def _nearest_script(name: str) -> str:
    import difflib

    folder = Path(name).parent
    scripts = [str(path) for path in sorted(folder.glob("*.py"))] if folder.is_dir() else []
    near = difflib.get_close_matches(name, scripts, n=1)
    return f"did you mean `{near[0]}`?" if near else "give the path of the script as you would to python"


def observe(
    args: argparse.Namespace,
    launcher: Any = None,
    *,
    command: str = "run",
    whole: bool = False,
    sooner: tuple[str, ...] = (),
) -> Any:
    """Run the script under observation and return how it ended."""
    from fitdoctor.cli import output
    from fitdoctor.cli.progress import Progress

    if launcher is None:
        import importlib

        launcher = importlib.import_module("fitdoctor.capture.launch")
    target, module, arguments = name_and_args(args.rest, command)
    output.check_writable(args.json)
    output.check_writable(getattr(args, "html", None))
    limits: dict[str, Any] = {} if args.budget is None else {"budget": args.budget}
    if getattr(args, "with_fixes", False):
        limits["overlay"] = _fixes_of(args.rest)
    options = launcher.Options(
        target=target,
        module=module,
        args=arguments,
        whole=whole,
        steps=args.steps,
        capture=Path(args.capture) if args.capture else None,
        redact=args.redact,
        quiet=args.quiet,
        lab=not args.no_lab,
        sooner=sooner,
        **limits,
    )
    progress = Progress(sys.stderr, quiet=args.quiet)
    with _stdout_for_json(args.json == output.STDOUT):
        ended = launcher.launch(options, progress)
    wanted = getattr(args, "backends", False) and not ended.interrupted
    if wanted and ended.capture is not None and ended.training_seen:
        from fitdoctor import pipeline

        pipeline.try_backends(options, ended.capture, progress)
    return ended


def _fixes_of(words: Sequence[str]) -> dict[str, bytes]:
    """Return what the script's files would be with the fixes that its last diagnosis is sure of."""
    import shlex

    from fitdoctor import pipeline
    from fitdoctor.cli import fix, output
    from fitdoctor.fixes.plan import Wanted

    capture = fix.kept(words)
    command = shlex.join(["fitdoctor", "run", *words])
    if capture is None:
        raise UsageError("there is no diagnosis of this script as it is now", do=f"make one first: {command}")
    plan = pipeline.plan_fixes(capture, Wanted(written=False))
    if not plan.files:
        raise UsageError("its last diagnosis has no fix that leaves results as they are", do="see `fitdoctor fix`")
    rules = ", ".join(dict.fromkeys(item.rule for item in plan.ready))
    output.talk(f"with the fixes for {rules}; no file is changed")
    return {each.path: each.after for each in plan.files}


def run(args: argparse.Namespace, launcher: Any = None) -> int:
    """Carry it out; `launcher` stands in for `fitdoctor.capture.launch`."""
    from fitdoctor.cli import output

    if args.whole and (args.steps or args.budget):
        raise UsageError(
            "--whole runs the script to its end: --steps and --budget mean nothing beside it", do="drop one"
        )
    if args.html == output.STDOUT:
        raise UsageError("--html writes a file, found -", do="name it; `fitdoctor report --format html` can write to -")
    if args.whole and args.backends:
        raise UsageError("--backends needs a run that may be started again: not --whole", do="drop one")
    ended = observe(args, launcher, whole=args.whole)
    code = exit_code(ended, whole=args.whole)
    try:
        _answer(ended, args.json, args.html)
    except Exception as error:
        if not args.whole or os.environ.get("FITDOCTOR_DEBUG"):
            raise
        # Observation only: what goes wrong on our side never changes what the script says with its exit code.
        from fitdoctor.cli.main import report_bug

        if isinstance(error, FitdoctorError):
            output.talk(str(error))
        else:
            report_bug(error, ["run", "--whole", *args.rest])
    return code


def exit_code(ended: Any, *, whole: bool) -> int:
    """Choose the exit code as promised in `errors.py`."""
    own: int = 128 - ended.returncode if ended.returncode < 0 else ended.returncode
    if whole:
        return own
    if ended.reason == "capped":
        return EXIT_OK
    if own == EXIT_OK and not ended.training_seen:
        return EXIT_NO_TRAINING
    return own


def _answer(ended: Any, json_path: str | None, html_path: str | None) -> None:
    from fitdoctor.cli import output

    if ended.message:
        output.talk(ended.message)
    if ended.capture is None:
        return
    output.talk(f"the capture is {ended.capture}")
    if not ended.training_seen:
        return
    from fitdoctor import pipeline
    from fitdoctor.report import json

    if html_path:
        page, report, source_of = pipeline.open_page(ended.capture)
        output.write(page, html_path)
        output.talk(f"the report to look at is {html_path}")
    else:
        report, source_of = pipeline.open_capture(ended.capture)
    pipeline.keep_summary(ended.capture, report)
    if json_path:
        output.write(json.dumps(report), json_path)
        if json_path != output.STDOUT:
            output.talk(f"the report is {json_path}")
    stream = sys.stderr if json_path == output.STDOUT else sys.stdout
    print(file=stream)
    output.show(report, source_of, stream)


@contextlib.contextmanager
def _stdout_for_json(wanted: bool) -> Iterator[None]:
    """Keep standard output for the JSON alone: a child started meanwhile writes to standard error instead."""
    if not wanted:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)

"""The command `fitdoctor`: finds its commands, turns errors into messages and exit codes.

A command is a module of this package with `add_parser(subparsers)` and `run(args) -> int`; it imports what it
needs inside `run`, so that `--help` and `--version` stay quick.  One that hands arguments on to a script also
has `split(argv) -> (ours, theirs)`; the latter arrive as `args.rest`.
Data goes to standard output, talk to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from fitdoctor import cli
from fitdoctor._version import __version__
from fitdoctor.errors import EXIT_BUG, EXIT_OK, EXIT_USAGE, FitdoctorError, UsageError

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
_VERSION = "--version"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of leaving, and never guesses what an abbreviation means."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line."""
        raise UsageError(message, do=f"see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets an escape instead of an exception.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(words)
        sys.stdout.flush()
    except FitdoctorError as error:
        _last_words(f"fitdoctor: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _last_words("fitdoctor: interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone
        _drop_output()
        return EXIT_BROKEN_PIPE
    except SystemExit as leaving:  # argparse, after --help; or rich, whose output nobody reads any more
        if isinstance(leaving.__context__, BrokenPipeError):
            return EXIT_BROKEN_PIPE
        return leaving.code if isinstance(leaving.code, int) else EXIT_OK
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _drop_output()
            problem = f"cannot write {error.filename or 'the answer'}: {error.strerror}"
            _last_words(f"fitdoctor: {problem}\n  → make room for it, or write it somewhere else")
            return EXIT_USAGE
        if isinstance(error, FileNotFoundError) and _folder_is_gone():
            _last_words("fitdoctor: the folder this was started in is gone\n  → go to one that is there: cd")
            return EXIT_USAGE
        if os.environ.get("FITDOCTOR_DEBUG"):
            raise
        report_bug(error, words)
        return EXIT_BUG
    return code


def say(text: str) -> None:
    """Print lines on standard error, as a terminal can show them: names in them may be hostile."""
    from fitdoctor.report.characters import harmless

    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    print("\n".join(harmless(line, encoding) for line in text.split("\n")), file=sys.stderr, flush=True)


def _open_closed_streams() -> None:
    """Give what was started without standard input, output or error (`>&-`) a place to read from or to write to."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - until the process ends


def _folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _last_words(text: str) -> None:
    """Say why it ends; where nobody can hear it, the exit code has to do."""
    try:
        say(text)
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """Let go of what cannot be written; the interpreter must not complain when it flushes at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _dispatch(words: list[str]) -> int:
    parser, commands = build_parser(words[0] if words else "")
    if not words:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    name = words[0]
    if not name.startswith("-") and name not in commands:
        raise UsageError(f"unknown command {name!r}", do=_suggestion(words, commands))
    theirs: list[str] = []
    split = getattr(commands.get(name), "split", None)
    if split is not None:
        ours, theirs = split(words[1:])
        words = [name, *ours]
    args = parser.parse_args(words)
    args.rest = theirs
    command = commands.get(args.command)
    if command is None:
        raise UsageError("expected a command", do="see `fitdoctor --help`")
    code: int = command.run(args)
    return code


def build_parser(only: str = "") -> tuple[Parser, dict[str, ModuleType]]:
    """Return the whole command line, and which module carries out which command.

    `only` is the first word that was typed: where it is the name of a command, the others need not be loaded.
    """
    parser = Parser(
        prog="fitdoctor",
        description="Why is my Keras training slow?",
        epilog="Start with: fitdoctor run your_script.py",
    )
    parser.add_argument(_VERSION, action="version", version=f"fitdoctor {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    commands: dict[str, ModuleType] = {}
    if only == _VERSION:
        return parser, commands
    names = [found.name for found in pkgutil.iter_modules(cli.__path__)]
    for name in [only] if only in names else names:
        module = importlib.import_module(f"{cli.__name__}.{name}")
        if hasattr(module, "add_parser") and hasattr(module, "run"):
            before = set(subparsers.choices)
            module.add_parser(subparsers)
            commands.update(dict.fromkeys(set(subparsers.choices) - before, module))
    return (parser, commands) if commands or not only else build_parser()


def _suggestion(words: list[str], commands: dict[str, ModuleType]) -> str:
    import difflib
    import shlex

    name = words[0]
    near = difflib.get_close_matches(name, commands, n=1)
    if near:
        return f"did you mean `{shlex.join(['fitdoctor', near[0], *words[1:]])}`?"
    if name.endswith(".py") or os.path.isfile(name):
        return f"did you mean `{shlex.join(['fitdoctor', 'run', *words])}`?"
    return f"the commands are: {', '.join(sorted(commands))}"


def report_bug(error: Exception, words: Sequence[str]) -> None:
    """Tell the user that this is our fault and where the details are."""
    import platform
    import tempfile
    import traceback

    message = " ".join(f"{type(error).__name__}: {error}".split())
    _last_words(f"fitdoctor: this is a bug in fitdoctor, not in your code: {message[:300]}")
    with contextlib.suppress(OSError):
        handle, path = tempfile.mkstemp(prefix="fitdoctor-bug-", suffix=".log")
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"fitdoctor {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
            log.write(f"command: {list(words)}\n\n")
            log.write("".join(traceback.format_exception(error)))
        _last_words(f"  → the details are in {path}; please report them")

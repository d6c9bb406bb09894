"""In a notebook: `%load_ext fitdoctor`, then `%%fitdoctor` above a cell that trains.

The cell runs in the notebook itself, to its own end, with everything it defines and everything it raises; it is only
watched.  Its report is shown below it.  IPython is imported by whoever loads this, never by fitdoctor on its own.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from fitdoctor.api import Watch
from fitdoctor.errors import UsageError
from fitdoctor.model import Report, Site

WIDTH = 100


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%fitdoctor: {message}", do="see `%%fitdoctor --help`")


def parser() -> argparse.ArgumentParser:
    """Describe what may stand behind `%%fitdoctor`."""
    made = _Parser(
        prog="%%fitdoctor",
        allow_abbrev=False,
        description="Run this cell as it is and say where its training's time goes.",
    )
    made.add_argument("--steps", metavar="N", type=_count, help="watch only so many steady steps; the cell runs on")
    made.add_argument("--budget", metavar="S", type=_seconds, help="watch only so many seconds of training")
    made.add_argument("--capture", metavar="FILE", help="keep the capture there")
    made.add_argument("--into", metavar="NAME", type=_name, help="put the report into this variable")
    made.add_argument("--quiet", action="store_true", help="do not show the report")
    return made


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text}")
    return value


def _name(text: str) -> str:
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"expected a variable's name, got {text}")
    return text


def load(shell: Any) -> None:
    """Register the magic with an IPython shell."""

    def fitdoctor(line: str, cell: str) -> None:
        """Run this cell as it is and say where its training's time goes; see `%%fitdoctor --help`."""
        run(shell, line, cell)

    shell.register_magic_function(fitdoctor, "cell", "fitdoctor")


def run(shell: Any, line: str, cell: str) -> None:
    """Run a cell under watch and show the report, also where the cell fails: its error goes on to the notebook."""
    from IPython.core.error import UsageError as ShellUsageError
    from IPython.utils.process import arg_split

    try:
        args = parser().parse_args(arg_split(line))
    except UsageError as error:
        raise ShellUsageError(str(error)) from None
    except SystemExit:  # --help
        return
    text = shell.transform_cell(cell)
    name = shell.compile.cache(text, shell.execution_count, raw_code=cell)
    watch = Watch(args.capture, show=False, steps=args.steps, budget=args.budget, script=script_of(shell.user_ns))
    watch.start()
    watch.keep_source(os.path.abspath(name), text)
    try:
        execute(shell, text, name)
    finally:
        try:
            report = watch.stop()
            if report is not None and args.into:
                shell.user_ns[args.into] = report
            if report is not None and not args.quiet:
                show(report, watch.source_of)
        except Exception as error:  # what fails on our side must not stand in for what the cell did
            sys.stderr.write(f"fitdoctor: no report: {type(error).__name__}: {error}\n")


def execute(shell: Any, text: str, name: str) -> None:
    """Run a cell's text in the notebook; the value of a last expression is shown as it always is."""
    tree = shell.transform_ast(shell.compile.ast_parse(text, name))
    body = list(tree.body)
    last = body.pop() if body and isinstance(body[-1], ast.Expr) and not text.rstrip().endswith(";") else None
    code = shell.compile(ast.Module(body, []), name, "exec")
    shown = None if last is None else shell.compile(ast.Interactive([last]), name, "single")
    exec(code, shell.user_ns)  # noqa: S102 - the user's own cell
    if shown is not None:
        exec(shown, shell.user_ns)  # noqa: S102


def script_of(names: dict[str, Any]) -> str:
    """Return the notebook's name where somebody tells it: the editor, or the server."""
    told = names.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME") or ""
    return str(told) if str(told).endswith(".ipynb") else "notebook"


def show(report: Report, source_of: Callable[[Site], list[str] | None] | None) -> None:
    """Display a report: as a page where the notebook can show one, else as text."""
    from IPython.display import display
    from rich.console import Console

    from fitdoctor.report import terminal

    page = io.StringIO()
    terminal.render(report, Console(file=page, width=WIDTH, highlight=False, force_jupyter=False), source_of)
    forms = {"text/plain": page.getvalue()}
    as_html = getattr(report, "_repr_html_", None)
    if as_html is not None:
        forms["text/html"] = as_html()
    display(forms, raw=True)

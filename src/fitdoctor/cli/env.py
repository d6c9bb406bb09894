"""`fitdoctor env`: what the machine and the installed frameworks offer."""

from __future__ import annotations

import argparse
import io
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fitdoctor.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from fitdoctor.facts.machine import Line

SCHEMA = "fitdoctor.env/1"
_MARKS = {"pass": ("✓", "green"), "problem": ("✗", "bold red"), "unknown": ("?", "yellow")}
_SUMMARY = {
    "problem": ("problem", "problems"),
    "unknown": ("unknown", "unknown"),
}


def add_parser(subparsers: Any) -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "env",
        help="what the machine and the installed frameworks offer",
        description=(
            "Looks at cores, quota, memory, GPUs, drivers and every installed framework, and says for each "
            "whether it is as it should be and what to do if not. Nothing is changed."
        ),
    )
    _arguments(parser)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument(
        "--timeout",
        type=float,
        default=90.0,
        metavar="S",
        help="seconds each framework has to answer (default: %(default)g)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look, and print."""
    if not 0 < args.timeout < float("inf"):
        raise UsageError(
            f"--timeout needs a number of seconds above 0, got {args.timeout:g}",
            do="fitdoctor env --timeout 90",
        )
    machine, keras, frameworks = gather(args.timeout)
    from fitdoctor.facts.machine import lines

    judged = lines(machine, keras, frameworks)
    if args.json:
        json.dump(as_json(machine, keras, frameworks, judged), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        render(judged)
    return EXIT_OK


def gather(timeout: float) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """Look at the machine, at Keras's settings, and ask every installed framework."""
    from fitdoctor.probes import frameworks as probe
    from fitdoctor.probes.host import environment

    machine = environment()
    installed = probe.installed()
    names = [each["name"] for each in installed]
    if names and sys.stderr.isatty():
        sys.stderr.write(f"asking {', '.join(names)} …\r")
        sys.stderr.flush()
    answers = probe.ask_all(names, timeout)
    if names and sys.stderr.isatty():
        sys.stderr.write("\x1b[2K\r")
        sys.stderr.flush()
    return machine, probe.keras(), [{**each, **answers[each["name"]]} for each in installed]


def as_json(
    machine: dict[str, Any], keras: dict[str, Any], frameworks: list[dict[str, Any]], judged: tuple[Line, ...]
) -> dict[str, Any]:
    """Build the machine-readable answer."""
    return {
        "schema": SCHEMA,
        "machine": machine,
        "keras": keras,
        "frameworks": frameworks,
        "lines": [asdict(line) for line in judged],
    }


def render(judged: tuple[Line, ...]) -> None:
    """Print one line per subject, and below it what to do."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 still gets every word
    console = Console(highlight=False)
    left = max(len(line.state) for line in judged) + 2
    middle = max(len(line.subject) for line in judged)
    for line in judged:
        mark, style = _MARKS[line.state]
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_column(width=left)
        row.add_column(width=middle)
        row.add_column(overflow="fold")
        row.add_row(Text(f"{mark} {line.state}", style=style), Text(line.subject, style="bold"), Text(line.found))
        console.print(row)
        if line.do:
            # Broken only where a shell allows it, so that it can be copied.
            console.print(Text(f"  → {line.do}".replace(" && ", " &&\n    "), style="bold"), soft_wrap=True)
    console.print()
    console.print(summary(judged))


def summary(judged: tuple[Line, ...]) -> str:
    """Say in one sentence how it looks, and what to type next."""
    parts = []
    for state, (one, many) in _SUMMARY.items():
        number = sum(line.state == state for line in judged)
        if number:
            parts.append(f"{number} {one if number == 1 else many}")
    verdict = ", ".join(parts) if parts else "Nothing wrong here"
    return f"{verdict}. Next: fitdoctor run SCRIPT"


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(prog="fitdoctor env")
    _arguments(_parser)
    _arguments_given = _parser.parse_args()
    sys.exit(run(_arguments_given))

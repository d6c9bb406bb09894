"""The command line, as its own `--help` tells it."""

from __future__ import annotations

import argparse
import os

from fitdoctor.cli.main import build_parser

COLUMNS = 96


def page() -> str:
    """Write the reference of all commands."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(COLUMNS)
    try:
        parser, _ = build_parser()
        sections = [section("fitdoctor", parser)]
        sections += [section(f"fitdoctor {name}", each) for name, each in sorted(commands(parser).items())]
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n\n".join(["# Commands", "What `--help` says of each.", *sections]) + "\n"


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands, by name."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found


def section(name: str, parser: argparse.ArgumentParser) -> str:
    """Write one command."""
    return f"## {name}\n\n```text\n{parser.format_help().rstrip()}\n```"

"""`fitdoctor rules`: every root cause fitdoctor knows, one line each."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fitdoctor.errors import EXIT_OK

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    subparsers.add_parser(
        "rules",
        help="list the causes fitdoctor looks for",
        description="List every root cause fitdoctor looks for; one line each where it is not read on a terminal.",
    )


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    from fitdoctor.cli import output
    from fitdoctor.rules import all_rules

    rules = all_rules()
    if sys.stdout.isatty():
        from fitdoctor.report import causes

        causes.render_list(output.page(), rules)
        return EXIT_OK
    name_width = max((len(rule.name) for rule in rules), default=0)
    family_width = max((len(rule.family) for rule in rules), default=0)
    for rule in rules:
        print(f"{rule.family:{family_width}}  {rule.name:{name_width}}  {rule.title}")
    return EXIT_OK

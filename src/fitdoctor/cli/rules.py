"""`fitdoctor rules`: every root cause fitdoctor knows, one line each."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fitdoctor.errors import EXIT_OK

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    subparsers.add_parser(
        "rules",
        help="list the causes fitdoctor looks for",
        description="List every root cause fitdoctor looks for, one line each.",
    )


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - every command has it
    """Carry it out."""
    from fitdoctor.model import FAMILIES
    from fitdoctor.rules import all_rules

    rules = sorted(all_rules(), key=lambda rule: (FAMILIES.index(rule.family), rule.name))
    name_width = max((len(rule.name) for rule in rules), default=0)
    family_width = max((len(rule.family) for rule in rules), default=0)
    for rule in rules:
        print(f"{rule.family:{family_width}}  {rule.name:{name_width}}  {first_line(rule)}")
    return EXIT_OK


def page(rule: Any) -> str:
    """Return the doc page of a rule: the docstring of its module."""
    import inspect

    return inspect.cleandoc(rule.module.__doc__ or "")


def first_line(rule: Any) -> str:
    """Return what a rule is about in one line."""
    return page(rule).partition("\n")[0]

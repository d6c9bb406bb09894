"""`fitdoctor explain`: the doc page of one root cause."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fitdoctor.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "explain",
        help="explain one cause",
        description="Print the page of one root cause: what is wrong, how it is measured, what to do.",
    )
    parser.add_argument("rule", metavar="RULE", help="its name, as in `fitdoctor rules`")


def run(args: argparse.Namespace) -> int:
    """Carry it out."""
    import difflib

    from fitdoctor.cli import output
    from fitdoctor.rules import all_rules

    rules = {rule.name: rule for rule in all_rules()}
    if args.rule not in rules:
        near = difflib.get_close_matches(args.rule, rules, n=1)
        raise UsageError(
            f"there is no rule {args.rule!r}",
            do=f"did you mean `fitdoctor explain {near[0]}`?" if near else "list them with `fitdoctor rules`",
        )
    if sys.stdout.isatty():
        from fitdoctor.report import causes

        causes.render_page(output.page(), rules[args.rule])
        return EXIT_OK
    print(f"{args.rule} ({rules[args.rule].family})\n")
    print(rules[args.rule].page)
    return EXIT_OK

"""What `fitdoctor cure` and `fitdoctor fix --prove` share: fixes are proved, and what is kept of them is written."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fitdoctor.errors import EXIT_OK

if TYPE_CHECKING:
    from fitdoctor.fixes.plan import Plan, Wanted
    from fitdoctor.proof.kept import Outcome

EXIT_NOTHING_KEPT = 1
BUDGET = 600.0


def proved(
    capture: Path, wanted: Wanted, args: argparse.Namespace, *, one_by_one: bool = False
) -> tuple[Plan, Outcome | None]:
    """Prove what is wanted; return what would be written of it, and what was tried (None: nothing was there to try)."""
    from fitdoctor import pipeline
    from fitdoctor.cli.progress import Progress

    return pipeline.prove_fixes(
        capture,
        wanted,
        steps=args.steps,
        budget=args.budget or BUDGET,
        one_by_one=one_by_one,
        tell=Progress(sys.stderr, quiet=args.quiet),
    )


def conclude(plan: Plan, outcome: Outcome | None, *, write: bool, unwritten: str) -> int:
    """Write what is kept, or say why that was not asked for; return the exit code."""
    from fitdoctor.cli import output
    from fitdoctor.fixes import writing

    if outcome is None:
        return EXIT_OK
    if outcome.kept is None:
        output.talk("nothing was written: nothing was proved")
        return EXIT_NOTHING_KEPT
    if not write:
        output.talk(f"nothing was written: {unwritten}")
        return EXIT_OK
    writing.apply(plan)
    for change in plan.files:
        output.talk(f"wrote {change.path}")
    output.talk("`fitdoctor fix --undo` takes it back")
    return EXIT_OK

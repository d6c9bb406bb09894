"""How much of a hand-made fast script `fitdoctor fix` reaches by itself, over the corpus.

    python benchmarks/fixes.py [--only NAME ...] [--pairs N]

Takes the captures that `make bench-accuracy` left, lets `fitdoctor fix --apply --only CAUSE` edit a copy of each slow
script (what else was found stays: the hand-made one does not have that either), and times the edited script against the
hand-made one, in turns, each time in a fresh process.  Writes docs/automatic-fixes.md; with --only it is printed
instead.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import accuracy
import pairs
from fitdoctor.capture import store

PAGE = Path(__file__).resolve().parent.parent / "docs" / "automatic-fixes.md"
REACHED = 0.95
HEAD = """# How good the automatic fixes are

Written by `make bench-fixes`; do not edit. `fitdoctor fix --apply` edited the slow script of each pair of the
[corpus](accuracy.md), for its cause only, by what it had measured on it; the edited script and the hand-made one were
timed in turns. *Reached* is the speed of the edited script as a share of the hand-made one's. A fix that may change
results is written with `--unsafe` only. Where nothing can be written without knowing what the data means, `fitdoctor
fix` says what to do.
"""


@dataclass(frozen=True)
class Fixed:
    """A slow script as `fitdoctor fix` left it."""

    text: str | None
    """None: nothing could be written."""
    unsafe: bool
    said: str = ""


def fixed(name: str) -> Fixed:
    """Let the cause of a pair be fixed: safely if that writes something, else with what may change results."""
    slow = pairs.CORPUS / name / "slow.py"
    capture = accuracy.kept(slow)
    if not capture.exists():
        return Fixed(None, False, "no capture: make bench-accuracy first")
    script = Path(str(store.read_meta(capture)["script"]))
    for unsafe in (False, True):
        # Where it was when it was diagnosed.
        script.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(slow, script)
        try:
            consent = ["--unsafe"] if unsafe else []
            words = ("--apply", "--only", name, *consent, "--project", str(script.parent), str(capture.resolve()))
            done = pairs.fitdoctor(script.parent, "fix", *words)
            text = script.read_text("utf-8")
        finally:
            shutil.rmtree(script.parent)
        if text != slow.read_text("utf-8"):
            return Fixed(text, unsafe)
    last = (done.stderr.strip().splitlines() or ["nothing was found to fix"])[-1]
    return Fixed(None, False, last[:120])


def timed(name: str, text: str, count: int) -> tuple[list[float], list[float]]:
    """Time the edited and the hand-made script in turns."""
    with tempfile.TemporaryDirectory() as folder:
        edited = Path(folder) / "edited.py"
        edited.write_text(text, "utf-8")
        return pairs.measure(
            pairs.CORPUS / name, count, lambda script: pairs.run_script(edited if script.stem == "slow" else script)
        )


def row(name: str, count: int) -> tuple[str, float | None]:
    """Measure one pair; return its line of the table, and what was reached."""
    found = fixed(name)
    if found.text is None:
        return f"| {name} | by hand | | | |", None
    edited, by_hand = timed(name, found.text, count)
    reached = [hand / own for hand, own in zip(by_hand, edited, strict=True)]
    middle = statistics.median(reached)
    told = f"{middle:.0%} ({min(reached):.0%} to {max(reached):.0%})".replace("%", " %")
    kind = "may change results" if found.unsafe else "same results"
    seconds = f"{statistics.median(edited):.1f} | {statistics.median(by_hand):.1f}"
    return f"| {name} | {kind} | {seconds} | {told} |", middle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", nargs="+", help="only these pairs; print the table")
    parser.add_argument("--pairs", type=int, default=3, help="how often both are timed (default: 3)")
    args = parser.parse_args()
    unknown = sorted(set(args.only or ()) - set(pairs.names()))
    if unknown:
        parser.error(f"no such pair: {', '.join(unknown)}; there are {', '.join(pairs.names())}")
    lines, reached = [], []
    for name in args.only or pairs.names():
        try:
            line, share = row(name, args.pairs)
        except pairs.BenchmarkError as error:
            line, share = f"| {name} | **does not run**: {str(error).splitlines()[-1][:90]} | | | |", 0.0
        lines.append(line)
        reached += [share] if share is not None else []
        print(line, flush=True)
    enough = sum(share >= REACHED for share in reached)
    print(f"\n{enough} of {len(reached)} reach {REACHED:.0%} of the hand-made version's speed")
    if not args.only:
        PAGE.write_text(page(lines, enough, len(reached), args.pairs), "utf-8")
        print(f"written: {PAGE.relative_to(PAGE.parent.parent)}")
    return 0


def page(lines: list[str], enough: int, written: int, count: int) -> str:
    """Return the page."""
    when = datetime.date.today().isoformat()
    return (
        f"{HEAD}\nMeasured on {when}: {pairs.machine()}; each script ran {count} times.\n\n"
        f"{enough} of the {written} scripts that could be edited reach at least 95 % of the hand-made version's speed; "
        f"{len(lines) - written} of {len(lines)} are left to a person.\n\n"
        "| cause | the edit | edited, s | by hand, s | reached |\n|---|---|---|---|---|\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    sys.exit(main())

"""How much of a hand-made fast script `fitdoctor fix` reaches by itself, over the corpus.

    python benchmarks/fixes.py [--only NAME ...] [--pairs N] [--again]

Takes the captures that `make bench-accuracy` left, lets `fitdoctor fix --apply --only CAUSE` edit a copy of each slow
script (what else was found stays: the hand-made one does not have that either), and times the edited script against the
hand-made one, in turns, each time in a fresh process.  Where the two are the same program nothing is timed.  Writes
docs/automatic-fixes.md; with --only, one pair after the other, only what the page is made of.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import accuracy
import pairs
from fitdoctor.capture import store

PAGE = Path(__file__).resolve().parent.parent / "docs" / "automatic-fixes.md"
RAW = Path(__file__).resolve().parent.parent / "build" / "fixes.json"
"""Every number, pair by pair: a pair can be measured by itself (--only) and the page be written later (--again)."""
REACHED = 0.95
HEAD = """# How good the automatic fixes are

Written by `make bench-fixes`; do not edit. `fitdoctor fix --apply` edited the slow script of each pair of the
[corpus](accuracy.md), for its cause only, by what it had measured on it; the edited script and the hand-made one were
timed in turns, unless they are the same program. *Reached* is the speed of the edited script as a share of the
hand-made one's. A fix that may change results is written with `--unsafe` only. Where nothing can be written without
knowing what the data means, `fitdoctor fix` says what to do.
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


@dataclass(frozen=True)
class Row:
    """What came of one pair."""

    name: str
    kind: str
    edited: tuple[float, ...] = ()
    by_hand: tuple[float, ...] = ()
    """Seconds of each training, in turns; none where nothing had to be timed, or could be."""
    share: float | None = None
    """What was reached; None where nothing was written."""
    date: str = ""

    @property
    def line(self) -> str:
        """Return it as a line of the table."""
        if not self.edited:
            told = "" if self.share is None else f" {self.share:.0%}".replace("%", " %")
            return f"| {self.name} | {self.kind} | | |{told} |"
        reached = [hand / own for hand, own in zip(self.by_hand, self.edited, strict=True)]
        told = f"{self.share:.0%} ({min(reached):.0%} to {max(reached):.0%})".replace("%", " %")
        seconds = f"{statistics.median(self.edited):.1f} | {statistics.median(self.by_hand):.1f}"
        return f"| {self.name} | {self.kind} | {seconds} | {told} |"


def row(name: str, count: int) -> Row:
    """Measure one pair."""
    today = datetime.date.today().isoformat()
    try:
        found = fixed(name)
        if found.text is None:
            return Row(name, "by hand", date=today)
        kind = "may change results" if found.unsafe else "same results"
        if same_program(found.text, (pairs.CORPUS / name / "fast.py").read_text("utf-8")):
            return Row(name, f"{kind}; the hand-made script to the letter", share=1.0, date=today)
        edited, by_hand = timed(name, found.text, count)
    except pairs.BenchmarkError as error:
        return Row(name, f"**does not run**: {str(error).splitlines()[-1][:90]}", share=0.0, date=today)
    reached = [hand / own for hand, own in zip(by_hand, edited, strict=True)]
    return Row(name, kind, tuple(edited), tuple(by_hand), statistics.median(reached), today)


def same_program(one: str, other: str) -> bool:
    """Tell whether two scripts differ in comments, blanks, docstrings and the order of named arguments at most."""
    return _bare(one) == _bare(other)


def _bare(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        elif isinstance(node, ast.Call):
            node.keywords.sort(key=lambda each: each.arg or "")
    return ast.dump(tree)


def earlier() -> dict[str, Row]:
    """Return what is on record, by name."""
    if not RAW.exists():
        return {}
    return {each["name"]: Row(**each) for each in json.loads(RAW.read_text("utf-8"))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", nargs="+", help="only these pairs; the page is not written")
    parser.add_argument("--pairs", type=int, default=3, help="how often both are timed (default: 3)")
    parser.add_argument("--again", action="store_true", help="run nothing: write the page from what is on record")
    args = parser.parse_args()
    unknown = sorted(set(args.only or ()) - set(pairs.names()))
    if unknown:
        parser.error(f"no such pair: {', '.join(unknown)}; there are {', '.join(pairs.names())}")
    rows = earlier()
    for name in () if args.again else args.only or pairs.names():
        rows[name] = row(name, args.pairs)
        print(rows[name].line, flush=True)
        RAW.parent.mkdir(parents=True, exist_ok=True)
        RAW.write_text(json.dumps([asdict(each) for each in rows.values()], indent=1), "utf-8")
    told = [rows[name] for name in pairs.names() if name in rows]
    print(f"\n{counted(told)}")
    if not args.only:
        PAGE.write_text(page(told, args.pairs), "utf-8")
        print(f"written: {PAGE.relative_to(PAGE.parent.parent)}")
    return 0


def counted(rows: Sequence[Row]) -> str:
    """Return how many reach what they should."""
    reached = [each.share for each in rows if each.share is not None]
    enough, left = sum(share >= REACHED for share in reached), len(rows) - len(reached)
    return (
        f"{enough} of the {len(reached)} scripts that could be edited reach at least {100 * REACHED:.0f} % of the "
        f"hand-made version's speed; {left} of {len(rows)} are left to a person."
    )


def page(rows: Sequence[Row], count: int) -> str:
    """Return the page."""
    when = max((each.date for each in rows), default="never")
    missing = sorted(set(pairs.names()) - {each.name for each in rows})
    left_out = f"\n\nNot measured: {', '.join(missing)}." if missing else ""
    head = f"{HEAD}\nMeasured on {when}: {pairs.machine()}; each script ran {count} times."
    table = "| cause | the edit | edited, s | by hand, s | reached |\n|---|---|---|---|---|\n"
    return f"{head}\n\n{counted(rows)}{left_out}\n\n{table}" + "".join(f"{each.line}\n" for each in rows)


if __name__ == "__main__":
    sys.exit(main())

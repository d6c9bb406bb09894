"""Measure what the hand-made fast version of each corpus script gains, and write it into truth.toml.

    python benchmarks/measure_gain.py [--only NAME ...] [--pairs N] [--dry-run]

Slow and fast run in turns, each time in a fresh process; the time is what the script itself prints at its end,
measured around its training.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

import pairs
from fitdoctor.model import Interval

FEWEST = 5


def gain_table(slow: Sequence[float], fast: Sequence[float], *, scripts: str, machine: str, date: str) -> str:
    """Return the [gain] table of a truth.toml."""
    speedup = pairs.ratio(slow, fast)
    quoted = machine.replace("\\", "").replace('"', "")
    return (
        "[gain]\n"
        f"speedup = {{ low = {speedup.low:.3f}, mid = {speedup.mid:.3f}, high = {speedup.high:.3f} }}\n"
        f"pairs = {len(slow)}\n"
        f'date = "{date}"\n'
        f'machine = "{quoted}"\n'
        f'scripts = "{scripts}"\n'
    )


def with_gain(text: str, table: str) -> str:
    """Return the text of a truth.toml with its [gain] table, always the last one, replaced."""
    return text.partition("\n[gain]")[0].rstrip("\n") + "\n\n" + table


def write_gain(path: Path, table: str) -> None:
    path.write_text(with_gain(path.read_text("utf-8"), table), "utf-8")


def measured(folder: Path, slow: Sequence[float], fast: Sequence[float]) -> str:
    """Return the [gain] table of a pair timed here and now."""
    today = datetime.date.today().isoformat()
    return gain_table(slow, fast, scripts=pairs.scripts(folder), machine=pairs.machine(), date=today)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", nargs="+", help="only these pairs")
    parser.add_argument("--pairs", type=int, default=FEWEST, help=f"how often each is run (default: {FEWEST})")
    parser.add_argument("--dry-run", action="store_true", help="print the tables, change no file")
    args = parser.parse_args()
    wanted = args.only or pairs.names()
    unknown = sorted(set(wanted) - set(pairs.names()))
    if unknown:
        parser.error(f"no such pair: {', '.join(unknown)}; there are {', '.join(pairs.names())}")
    if args.pairs < FEWEST and not args.dry_run:
        parser.error(f"fewer than {FEWEST} pairs say too little to be written down: add --dry-run")
    failed = False
    for name in wanted:
        try:
            slow, fast = pairs.measure(pairs.CORPUS / name, args.pairs, say=lambda line: print(line, flush=True))
        except pairs.BenchmarkError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
            continue
        table = measured(pairs.CORPUS / name, slow, fast)
        print(table, flush=True)
        if not args.dry_run:
            write_gain(pairs.CORPUS / name / "truth.toml", table)
        speedup: Interval = pairs.ratio(slow, fast)
        if speedup.low < 1.2:
            print(f"{name}: the gain is not clear: {speedup.low:.2f} to {speedup.high:.2f}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Measure what the hand-made fast version of each corpus script gains, and write it into truth.toml.

    python benchmarks/measure_gain.py [--only NAME ...] [--pairs N] [--dry-run]

Slow and fast run in turns, each time in a fresh process, watched from beginning to end and otherwise let be (which
costs microseconds a step); the time is what the script itself prints at its end, measured around its training.  What of
it a longer training would not pay again (compiling, a pause that came once) is known from watching.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pairs
from fitdoctor.model import Interval
from pairs import Watched

FEWEST = 5


def gain_table(slow: Sequence[Watched], fast: Sequence[Watched], *, scripts: str, machine: str, date: str) -> str:
    """Return the [gain] table of a truth.toml."""
    speedup = pairs.ratio([each.seconds for each in slow], [each.seconds for each in fast])
    steady = pairs.ratio([each.steady for each in slow], [each.steady for each in fast])
    quoted = machine.replace("\\", "").replace('"', "")
    return (
        "[gain]\n"
        f"speedup = {_toml(speedup)}\n"
        f"steady = {_toml(steady)}\n"
        f"pairs = {len(slow)}\n"
        f'date = "{date}"\n'
        f'machine = "{quoted}"\n'
        f'scripts = "{scripts}"\n'
    )


def _toml(interval: Interval) -> str:
    return f"{{ low = {interval.low:.3f}, mid = {interval.mid:.3f}, high = {interval.high:.3f} }}"


def with_gain(text: str, table: str) -> str:
    """Return the text of a truth.toml with its [gain] table, always the last one, replaced."""
    return text.partition("\n[gain]")[0].rstrip("\n") + "\n\n" + table


def write_gain(path: Path, table: str) -> None:
    path.write_text(with_gain(path.read_text("utf-8"), table), "utf-8")


def measure(folder: Path, count: int, *, say: Callable[[str], None] = lambda line: None, agree: float = 0.0) -> str:
    """Time a pair and return its [gain] table."""
    seen: dict[str, list[Watched]] = {"slow": [], "fast": []}

    def run(script: Path) -> float:
        seen[script.stem].append(pairs.watch_script(script))
        return seen[script.stem][-1].steady

    pairs.measure(folder, count, run, say, agree)
    today = datetime.date.today().isoformat()
    return gain_table(seen["slow"], seen["fast"], scripts=pairs.scripts(folder), machine=pairs.machine(), date=today)


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
            table = measure(pairs.CORPUS / name, args.pairs, say=lambda line: print(line, flush=True))
        except pairs.BenchmarkError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
            continue
        print(table, flush=True)
        if not args.dry_run:
            write_gain(pairs.CORPUS / name / "truth.toml", table)
        speedup = pairs.read_gain(table).speedup
        if speedup.low < 1.2:
            print(f"{name}: the gain is not clear: {speedup.low:.2f} to {speedup.high:.2f}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

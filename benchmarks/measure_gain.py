"""Measure what the hand-made fast version of each corpus script gains, and write it into truth.toml.

    python benchmarks/measure_gain.py [--only NAME ...] [--pairs N] [--add] [--dry-run]

Slow and fast run in turns (fast, slow, fast, slow, fast), each time in a fresh process, watched from beginning to end
and otherwise let be (which costs microseconds a step); the time is what the script itself prints at its end, measured
around its training.  What of it a longer training would not pay again (compiling, pauses between some epochs) is known
from watching.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pairs
from fitdoctor.model import Interval

FEWEST = 5


def gain_table(ratios: Sequence[tuple[float, float]], *, scripts: str, machine: str, date: str) -> str:
    """Return the [gain] table of a truth.toml."""
    speedup, steady = (pairs.middle([each[place] for each in ratios]) for place in (0, 1))
    quoted = machine.replace("\\", "").replace('"', "")
    listed = ", ".join(f"[{speedup:.3f}, {steady:.3f}]" for speedup, steady in ratios)
    return (
        "[gain]\n"
        f"speedup = {_toml(speedup)}\n"
        f"steady = {_toml(steady)}\n"
        f"ratios = [{listed}]\n"
        f"pairs = {len(ratios)}\n"
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


def measure(
    folder: Path,
    count: int,
    *,
    say: Callable[[str], None] = lambda line: None,
    agree: float = 0.0,
    earlier: Sequence[tuple[float, float]] = (),
) -> str:
    """Time a pair and return its [gain] table, with what was timed `earlier`.

    Each run of the slow script is compared with those of the fast one before and after it: drift hits both alike, and
    the shorter of the two is seen more often.  Fewer runs will do once the last two tell the same to within `agree`.
    """
    fast, ratios = [pairs.watch_script(folder / "fast.py")], list[tuple[float, float]]()
    for _ in range(count):
        slow = pairs.watch_script(folder / "slow.py")
        fast.append(pairs.watch_script(folder / "fast.py"))
        beside = fast[-2:]
        seconds, steady = (
            statistics.fmean(each) for each in zip(*((f.seconds, f.steady) for f in beside), strict=True)
        )
        ratios.append((slow.seconds / seconds, slow.steady / steady))
        say(f"{folder.name}: slow {slow.seconds:.2f} s, fast {seconds:.2f} s, a step {ratios[-1][1]:.2f} times as fast")
        last = [each[1] for each in ratios[-2:]]
        if len(last) == 2 and max(last) < (1 + agree) * min(last):
            break
    today = datetime.date.today().isoformat()
    scripts = pairs.scripts(folder)
    return gain_table([*earlier, *ratios], scripts=scripts, machine=pairs.machine(), date=today)


def earlier(folder: Path) -> tuple[tuple[float, float], ...]:
    """Return what the same scripts gained on such a machine, pair by pair, as far as it is on record."""
    gain = pairs.read_truth(folder / "truth.toml").gain
    if gain is None or gain.scripts != pairs.scripts(folder) or gain.machine != pairs.machine():
        return ()
    return gain.ratios


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", nargs="+", help="only these pairs")
    parser.add_argument("--pairs", type=int, default=FEWEST, help=f"how often each is run (default: {FEWEST})")
    parser.add_argument("--add", action="store_true", help="add to what is on record: on the same machine and day")
    parser.add_argument("--dry-run", action="store_true", help="print the tables, change no file")
    args = parser.parse_args()
    wanted = args.only or pairs.names()
    unknown = sorted(set(wanted) - set(pairs.names()))
    if unknown:
        parser.error(f"no such pair: {', '.join(unknown)}; there are {', '.join(pairs.names())}")
    if args.pairs < FEWEST and not args.dry_run and not args.add:
        parser.error(f"fewer than {FEWEST} pairs say too little to be written down: add --dry-run")
    failed = False
    for name in wanted:
        known = earlier(pairs.CORPUS / name) if args.add else ()
        try:
            table = measure(pairs.CORPUS / name, args.pairs, say=lambda line: print(line, flush=True), earlier=known)
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

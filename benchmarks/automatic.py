"""How much of a hand-made fast script the automatic rewrite of its input reaches, on the input pairs of the corpus.

    python benchmarks/automatic.py [--only NAME ...] [--pairs N]

Three versions in turns, each time in a fresh process: slow.py, slow.py whose input `fitdoctor.optimize` has rewritten
(what that took is not counted), and fast.py.  `make bench-automatic` prints the table.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pairs

HERE = Path(__file__).resolve().parent
TAKES = ("tf.data", "PyDataset", "DataLoader")


def optimized(script: Path, backend: str) -> tuple[float, str]:
    """Run a script with its input rewritten; return the seconds of its training, and what was kept."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy = shutil.copy(script, folder / "train.py")
        done = subprocess.run(
            [sys.executable, str(HERE / "with_optimize.py"), copy],
            cwd=folder,
            env={**pairs.environment(folder), "KERAS_BACKEND": backend},
            capture_output=True,
            text=True,
            timeout=pairs.TIMEOUT,
        )
    if done.returncode != 0:
        raise pairs.BenchmarkError(f"{script.parent.name} with its input rewritten failed:\n{done.stderr[-2000:]}")
    kept = [line for line in done.stderr.splitlines() if line.startswith("optimize: ")]
    if os.environ.get("EXPLAIN"):
        sys.stderr.write(done.stderr)
    return pairs.trained_in(done.stdout), kept[0].removeprefix("optimize: ") if kept else "fit was not called"


def row(name: str, count: int) -> str:
    """Measure one pair."""
    folder = pairs.CORPUS / name
    truth = pairs.read_truth(folder / "truth.toml")
    times: dict[str, list[float]] = {"slow": [], "optimized": [], "fast": []}
    kept: set[str] = set()
    for turn in range(count):
        for which in list(times) if turn % 2 == 0 else list(reversed(times)):
            if which == "optimized":
                took, what = optimized(folder / "slow.py", truth.backend)
                kept.add(what)
            else:
                took = pairs.run_script(folder / f"{which}.py")
            times[which].append(took)
    slow, mine, fast = (statistics.median(times[which]) for which in times)
    reached = [by_hand / own for by_hand, own in zip(times["fast"], times["optimized"], strict=True)]
    share = f"{statistics.median(reached):.2f} ({min(reached):.2f} to {max(reached):.2f})"
    return f"| {name} | {'; '.join(sorted(kept))} | {slow:.1f} | {mine:.1f} | {fast:.1f} | {share} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", nargs="+", help="only these pairs")
    parser.add_argument("--pairs", type=int, default=3, help="how often each is run (default: 3)")
    args = parser.parse_args()
    known = []
    for name in pairs.names():
        truth = pairs.read_truth(pairs.CORPUS / name / "truth.toml")
        if truth.family == "input" and truth.adapter in TAKES:
            known.append(name)
    unknown = sorted(set(args.only or ()) - set(known))
    if unknown:
        parser.error(f"no input pair that optimize takes: {', '.join(unknown)}; there are {', '.join(known)}")
    print(
        "| pair | kept | slow, s | optimized, s | by hand, s | throughput of by hand |\n|---|---|---|---|---|---|",
        flush=True,
    )
    for name in args.only or known:
        try:
            print(row(name, args.pairs), flush=True)
        except pairs.BenchmarkError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What observing costs per step, measured in turns with not observing, beside what others cost.

Run it with `make bench-overhead`; `--pairs N` for a quicker look, `--json FILE` to keep the numbers.  The bound is the
product's own: at most 20 µs or 0.5 % per step in `--whole` mode.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BOUND_US, BOUND_FRACTION = 20.0, 0.005


def command(observer: str, worker: list[str], folder: Path) -> list[str]:
    if observer == "fitdoctor":
        capture = str(folder / "run.fitdoctor")
        return [sys.executable, "-m", "fitdoctor", "run", "--whole", "--quiet", "--capture", capture, *worker]
    if observer == "traceml":
        # Its quietest mode: a summary at the end, no live view.
        traceml = str(Path(sys.executable).parent / "traceml")
        return [traceml, "run", "--mode", "summary", "--logs-dir", str(folder), worker[0], "--args", *worker[1:]]
    return [sys.executable, *worker]


def measure(observer: str, backend: str, size: str, pairs: int) -> dict[str, list[float]] | str:
    """Run one worker; return its paired block times, or why it could not run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = folder / "result.json"
        worker = [str(HERE / "overhead_worker.py"), observer, size, str(pairs)]
        env = {
            **os.environ, "KERAS_BACKEND": backend, "OVERHEAD_RESULT": str(result), "TF_CPP_MIN_LOG_LEVEL": "3",
            "FITDOCTOR_HOME": name,
        }  # fmt: skip
        done = subprocess.run(command(observer, worker, folder), env=env, cwd=folder, capture_output=True, text=True)
        if not result.exists():
            return (done.stderr.strip().splitlines() or ["no output"])[-1][:200]
        return dict(json.loads(result.read_text()))


def difference(runs: list[dict[str, list[float]]]) -> tuple[float, float, float]:
    """Return the mean difference of paired blocks over several processes, with its 95 % interval.

    Within a process the fifths at both ends are left out: what else the machine does hits single blocks.  Processes
    are drawn again, then pairs within each: two runs of the same differ by more than their own pairs tell.
    """

    def centre(rows: np.ndarray) -> float:
        cut = len(rows) // 5
        return float(np.sort(rows)[cut : len(rows) - cut].mean())

    pairs = [np.array(run["seen"]) - np.array(run["plain"]) for run in runs]
    rng = np.random.default_rng(0)
    means = []
    for _ in range(2000):
        chosen = [pairs[i] for i in rng.integers(0, len(pairs), len(pairs))]
        means.append(np.mean([centre(each[rng.integers(0, len(each), len(each))]) for each in chosen]))
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(np.mean([centre(each) for each in pairs])), float(high)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12, help="pairs of blocks per process")
    parser.add_argument("--processes", type=int, default=3, help="processes per line")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--only", help="only lines of this observer")
    parser.add_argument("--backend", help="only lines of this backend")
    parser.add_argument("--size", help="only lines of this size: small or large")
    args = parser.parse_args()
    lines = [("fitdoctor", backend, size) for backend in ("tensorflow", "jax", "torch") for size in ("small", "large")]
    lines += [("tensorboard", "tensorflow", size) for size in ("small", "large")]
    lines += [("traceml", "torch", size) for size in ("small", "large")]
    found = []
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; "
        f"{args.processes} processes a line, {args.pairs} pairs of blocks each"
    )
    print(f"{'observer':12} {'backend':11} {'step':>9}   {'cost per step, 95 % interval':32} {'of the step':>22}")
    for observer, backend, size in lines:
        if any(
            want and want != have
            for want, have in zip((args.only, args.backend, args.size), (observer, backend, size), strict=True)
        ):
            continue
        if observer == "traceml" and importlib.util.find_spec("traceml_ai") is None:
            print(f"{observer:12} {backend:11} not installed: pip install traceml-ai")
            continue
        runs = [measure(observer, backend, size, args.pairs) for _ in range(args.processes)]
        failed = next((run for run in runs if isinstance(run, str)), None)
        if failed is not None:
            print(f"{observer:12} {backend:11} could not run: {failed}")
            continue
        times = [run for run in runs if not isinstance(run, str)]
        step = float(np.median([block for run in times for block in run["plain"]]))
        low, mid, high = (1e6 * each for each in difference(times))
        flow, fmid, fhigh = (each / 1e6 / step for each in (low, mid, high))
        holds = low <= BOUND_US or flow <= BOUND_FRACTION
        within = mid <= BOUND_US or fmid <= BOUND_FRACTION
        verdict = "" if observer != "fitdoctor" else "within" if within else "not told" if holds else "OVER"
        cost = f"{mid:8.1f} µs ({low:.1f} to {high:.1f})"
        share = f"{100 * fmid:6.2f} % ({100 * flow:.2f} to {100 * fhigh:.2f})"
        print(f"{observer:12} {backend:11} {step * 1e3:6.2f} ms   {cost:32} {share:>22}  {verdict}", flush=True)
        found.append(
            {
                "observer": observer, "backend": backend, "step_ms": step * 1e3, "us": [low, mid, high],
                "fraction": [flow, fmid, fhigh], "verdict": verdict, "blocks": times,
            }
        )  # fmt: skip
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(found, indent=1))
    return int(any(each["verdict"] == "OVER" for each in found))


if __name__ == "__main__":
    sys.exit(main())

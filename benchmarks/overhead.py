"""What observing costs per step, measured in turns with not observing, beside what others cost.

Run it with `make bench-overhead`; `--seconds N` for a quicker look, `--json FILE` to keep the numbers.  The bound is
the product's own: at most 20 µs or 0.5 % per step in `--whole` mode.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
BOUND_US, BOUND_FRACTION = 20.0, 0.005
LONGEST_START = 180.0
"""Seconds after which a process that should have ended is ended."""


def command(observer: str, worker: list[str], folder: Path) -> list[str]:
    if observer == "fitdoctor":
        capture = str(folder / "run.fitdoctor")
        return [sys.executable, "-m", "fitdoctor", "run", "--whole", "--quiet", "--capture", capture, *worker]
    if observer == "traceml":
        # Its quietest mode: a summary at the end, no live view.
        traceml = str(Path(sys.executable).parent / "traceml")
        return [traceml, "run", "--mode", "summary", "--logs-dir", str(folder), worker[0], "--args", *worker[1:]]
    return [sys.executable, *worker]


def measure(observer: str, backend: str, size: str, seconds: float) -> dict[str, Any] | str:
    """Run one worker; return its paired times, or why it could not run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = folder / "result.json"
        worker = [str(HERE / "overhead_worker.py"), observer, size, str(seconds)]
        env = {
            **os.environ, "KERAS_BACKEND": backend, "OVERHEAD_RESULT": str(result), "TF_CPP_MIN_LOG_LEVEL": "3",
            "FITDOCTOR_HOME": name,
        }  # fmt: skip
        with (folder / "errors").open("w+") as errors:
            done = subprocess.Popen(
                command(observer, worker, folder), env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors,
                start_new_session=True,
            )  # fmt: skip
            try:
                done.wait(seconds + LONGEST_START)
            except subprocess.TimeoutExpired:
                # With everything it started.
                os.killpg(done.pid, signal.SIGKILL)
                done.wait()
            errors.seek(0)
            said = errors.read().strip().splitlines() or ["no output"]
        return dict(json.loads(result.read_text())) if result.exists() else said[-1][:200]


def centre(rows: np.ndarray) -> float:
    """Return the mean without the tenth at either end: what else the machine does hits single steps hard."""
    cut = len(rows) // 10
    return float(np.sort(rows)[cut : len(rows) - cut].mean())


def cost(differences: np.ndarray, rare: np.ndarray) -> float:
    """Return the mean cost of a step: of ordinary steps and of those with a look, each as often as it was."""
    share = float(rare.mean())
    return (1 - share) * centre(differences[~rare]) + (share * centre(differences[rare]) if share else 0.0)


def difference(runs: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Return the mean cost of a step over several processes, in seconds, with its 95 % interval.

    Processes are drawn again, then stretches of neighbouring pairs within each: two runs of the same differ by more
    than their own pairs tell, and so do neighbours less than strangers.
    """
    stretches = []
    for run in runs:
        pairs = np.array(run["seen"]) - np.array(run["plain"])
        pieces = min(50, len(pairs))
        rare = np.array(run["rare"])
        beside = run["beside"] * float(np.mean(run["plain"]))
        stretches.append((np.array_split(pairs, pieces), np.array_split(rare, pieces), beside))
    rng = np.random.default_rng(0)

    def mean(draw: bool) -> float:
        found = []
        for number in rng.integers(0, len(runs), len(runs)) if draw else range(len(runs)):
            pairs, rare, beside = stretches[number]
            chosen = rng.integers(0, len(pairs), len(pairs)) if draw else range(len(pairs))
            found.append(
                cost(np.concatenate([pairs[i] for i in chosen]), np.concatenate([rare[i] for i in chosen])) + beside
            )
        return float(np.mean(found))

    low, high = np.percentile([mean(draw=True) for _ in range(1000)], [2.5, 97.5])
    return float(low), mean(draw=False), float(high)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40, help="of steps per process; twice as many of large ones")
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
        f"{args.processes} processes a line, {args.seconds:.0f} s of steps each"
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
        # The bound is finer for them: half a per cent.
        seconds = args.seconds * (2 if size == "large" and observer == "fitdoctor" else 1)
        runs = [measure(observer, backend, size, seconds) for _ in range(args.processes)]
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
                "fraction": [flow, fmid, fhigh], "verdict": verdict, "beside": [run["beside"] for run in times],
            }
        )  # fmt: skip
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(found, indent=1))
    return int(any(each["verdict"] == "OVER" for each in found))


if __name__ == "__main__":
    sys.exit(main())

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


def difference(plain: np.ndarray, seen: np.ndarray) -> tuple[float, float, float]:
    """Return the difference of the mean block times over the faster half of the blocks, with its 95 % interval.

    What else the machine does makes blocks slower, never faster: the faster half tells more about the work itself.
    Whole stretches of neighbouring pairs are drawn again (a block bootstrap), since disturbances last.
    """

    def centre(rows: np.ndarray) -> np.ndarray:
        return np.sort(rows, axis=-1)[..., : rows.shape[-1] // 2].mean(axis=-1)

    length = 8
    rng = np.random.default_rng(0)
    starts = rng.integers(0, max(1, len(plain) - length + 1), size=(2000, -(-len(plain) // length)))
    drawn = (starts[..., None] + np.arange(length)).reshape(2000, -1)[:, : len(plain)].clip(0, len(plain) - 1)
    low, high = np.percentile(centre(seen[drawn]) - centre(plain[drawn]), [2.5, 97.5])
    return float(low), float(centre(seen) - centre(plain)), float(high)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40, help="pairs of blocks per line")
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
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; {args.pairs} pairs a line"
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
        times = measure(observer, backend, size, args.pairs)
        if isinstance(times, str):
            print(f"{observer:12} {backend:11} could not run: {times}")
            continue
        plain, seen = np.array(times["plain"]), np.array(times["seen"])
        step = float(np.median(plain))
        low, mid, high = (1e6 * each for each in difference(plain, seen))
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

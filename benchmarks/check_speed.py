"""How fast `fitdoctor check` reads source, in turns with TorchFix, over the installed sources of Keras.

TorchFix is the linter nearest to it: rules about one framework, in Python.  It is installed into a folder of its own,
which is thrown away, and asked for all its rules.  Both get one process, in turns.  TorchFix leaves files that do not
speak of torch unread, so it is given those only that it reads.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROUNDS = 3
WANTED = 200.0
"""Files per second on one core."""
COLD = 0.3
"""Seconds from nothing to the answer for one file."""


def installed_keras() -> Path:
    found = importlib.util.find_spec("keras")
    if found is None or found.origin is None:
        sys.exit("expected Keras to be installed beside fitdoctor: make venv")
    return Path(found.origin).parent


def torchfix(folder: Path) -> list[str] | None:
    """Install it; None where that is not possible."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "torchfix"], capture_output=True, text=True)
    if done.returncode:
        print(f"TorchFix cannot be installed here: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return [str(python), "-m", "torchfix", "--select", "ALL", "--jobs", "1"]


def timed(command: list[str]) -> tuple[float, float]:
    """Return the seconds that a command took on the clock and of its CPUs, all its processes together."""
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    if "fitdoctor" in command and done.returncode not in (0, 1):
        sys.exit(f"fitdoctor check failed with exit code {done.returncode}: its time means nothing")
    wall, after = time.perf_counter() - start, os.times()
    return wall, after.children_user - before.children_user + after.children_system - before.children_system


def environment() -> dict[str, str]:
    """Let both keep their bytecode, as installed programs do."""
    return {
        **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPYCACHEPREFIX": str(BYTECODE),
    }


BYTECODE = Path(tempfile.gettempdir()) / "fitdoctor-check-speed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--sample", type=int, default=90, help="files that both get: TorchFix takes seconds for each")
    parser.add_argument("--alone", action="store_true", help="without TorchFix")
    args = parser.parse_args()
    files = [str(path) for path in sorted(installed_keras().rglob("*.py"))]
    sample = files[:: max(1, len(files) // args.sample)]
    with tempfile.TemporaryDirectory() as folder:
        one = Path(folder) / "one.py"
        one.write_text("import torch\n")
        ours = [sys.executable, "-m", "fitdoctor", "check", "--jobs", "1"]
        tasks = {
            "fitdoctor, one file": (ours, [str(one)]),
            "fitdoctor, all of Keras": (ours, files),
            "fitdoctor, a sample": (ours, sample),
        }
        other = None if args.alone else torchfix(Path(folder) / "torchfix")
        if other is not None:
            tasks["TorchFix, one file"] = (other, [str(one)])
            # Those that it reads: it leaves the others alone.
            tasks["TorchFix, a sample"] = (other, [each for each in sample if "torch" in Path(each).read_text("utf-8")])
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in tasks}
        for command, _ in tasks.values():
            timed([*command, str(one)])
        for _ in range(args.rounds):
            for name, (command, given) in tasks.items():
                seconds[name].append(timed([*command, *given]))
    print(f"{args.rounds} rounds in turns, one process each; medians")
    print(f"  {'':24} {'files':>6} {'clock':>9} {'CPU':>9} {'files/s of CPU':>16}")
    for name, (_, given) in tasks.items():
        wall, cpu = (statistics.median(column) for column in zip(*seconds[name], strict=True))
        print(f"  {name:24} {len(given):6} {wall:7.2f} s {cpu:7.2f} s {len(given) / cpu:16.1f}")
    start = min(wall for wall, _ in seconds["fitdoctor, one file"])
    rate = len(files) / min(cpu for _, cpu in seconds["fitdoctor, all of Keras"])
    print(f"the best: {rate:.0f} files/s of CPU (wanted: {WANTED:.0f}), a start in {start:.2f} s (wanted: {COLD})")
    return 0 if rate >= WANTED and start <= COLD else 1


if __name__ == "__main__":
    sys.exit(main())

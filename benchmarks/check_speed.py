"""How fast `fitdoctor check` reads source, in turns with TorchFix, over the installed sources of Keras.

TorchFix is the linter nearest to it: rules about one framework, in Python.  It is installed into a folder of its own,
which is thrown away, and asked for all its rules; both get one process and the very same files.  TorchFix leaves files
that do not speak of torch unread, so its rate counts only the others.
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
    return [str(python), "-m", "torchfix", "--select", "ALL"]


def timed(command: list[str]) -> tuple[float, float]:
    """Return the seconds that a command took on the clock and of its CPUs, all its processes together."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
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
    parser.add_argument("--files", type=int, default=0, help="take every n-th file so that about this many remain")
    parser.add_argument("--alone", action="store_true", help="without TorchFix")
    args = parser.parse_args()
    source = installed_keras()
    files = [str(path) for path in sorted(source.rglob("*.py"))]
    files = files[:: max(1, len(files) // args.files)] if args.files else files
    with tempfile.TemporaryDirectory() as folder:
        one = Path(folder) / "one.py"
        one.write_text("import keras\n")
        ours = [sys.executable, "-m", "fitdoctor", "check", "--jobs", "1"]
        rivals = {"fitdoctor": ours}
        other = None if args.alone else torchfix(Path(folder) / "torchfix")
        if other is not None:
            rivals["torchfix"] = [*other, "--jobs", "1"]
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in rivals}
        cold: dict[str, list[float]] = {name: [] for name in rivals}
        for command in rivals.values():
            timed([*command, str(one)])
        for _ in range(args.rounds):
            for name, command in rivals.items():
                cold[name].append(timed([*command, str(one)])[0])
                seconds[name].append(timed([*command, *files]))
    print(f"{len(files)} files of Keras, {args.rounds} rounds in turns")
    print("                   one file, cold     all files      CPU     read  files/s of CPU")
    rates = {}
    read = {"fitdoctor": len(files), "torchfix": sum("torch" in Path(file).read_text("utf-8") for file in files)}
    for name in rivals:
        wall, cpu = (statistics.median(column) for column in zip(*seconds[name], strict=True))
        rates[name] = read[name] / cpu
        print(
            f"  {name:12} {statistics.median(cold[name]):16.2f} s {wall:11.2f} s {cpu:6.2f} s {read[name]:8} "
            f"{rates[name]:15.0f}"
        )
    start = min(cold["fitdoctor"])
    print(
        f"wanted: {WANTED:.0f} files/s per core, a cold start of at most {COLD} s (the best of these was {start:.2f} s)"
    )
    return 0 if rates["fitdoctor"] >= WANTED and start <= COLD else 1


if __name__ == "__main__":
    sys.exit(main())

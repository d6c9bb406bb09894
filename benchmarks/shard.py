"""Small files to shards: files and bytes per second, memory, and whether a conversion that is killed ends the same.

python benchmarks/shard.py [--files 20000] [--bytes 4000] [--kills 5]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHARD = "8MiB"


def make_files(folder: Path, count: int, size: int) -> None:
    draw = random.Random(0)
    for number in range(count):
        path = folder / f"class{number % 10}" / f"{number:06d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draw.randbytes(draw.randint(size // 2, 3 * size // 2)))


def command(source: Path, target: Path, format_: str) -> list[str]:
    program = [sys.executable, "-m", "fitdoctor", "shard"]
    return [*program, str(source), str(target), "--shard-size", SHARD, "--format", format_]


def fingerprint(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("part-*"))}


def whole(words: list[str]) -> tuple[float, float]:
    """Return seconds and the most mebibytes in memory, of one conversion."""
    start = time.perf_counter()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(f"the conversion failed: {words}")
    return time.perf_counter() - start, used.ru_maxrss / 1024


def killed(words: list[str], seconds: float, times: int) -> int:
    """Kill conversions at random moments, then let one end; returns how many died."""
    draw = random.Random(1)
    died = 0
    for _ in range(times):
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(0.1, 0.8) * seconds)
        child.kill()
        died += child.wait() < 0
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return died


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--bytes", type=int, default=4_000)
    parser.add_argument("--kills", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fitdoctor-bench-") as folder:
        source = Path(folder) / "files"
        make_files(source, args.files, args.bytes)
        total = sum(path.stat().st_size for path in source.rglob("*.bin"))
        print(f"{args.files} files, {total / 1e6:.0f} MB")
        for format_ in ("tfrecord", "array_record"):
            once, again = (Path(folder) / f"{format_}-{name}" for name in ("once", "killed"))
            seconds, memory = whole(command(source, once, format_))
            died = killed(command(source, again, format_), seconds, args.kills)
            same = fingerprint(once) == fingerprint(again)
            print(
                f"{format_}: {seconds:.2f} s, {args.files / seconds:.0f} files/s, {total / seconds / 1e6:.0f} MB/s, "
                f"{memory:.0f} MiB at most; killed {died} times and resumed: {'the same' if same else 'DIFFERENT'}"
            )
            if not same:
                raise SystemExit(1)


if __name__ == "__main__":
    main()

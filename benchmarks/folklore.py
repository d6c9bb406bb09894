"""Try what everybody says about slow Keras trainings, and write docs/folklore.md.

    python benchmarks/folklore.py [--only CLAIM ...] [--seconds S] [--dry-run]

Every file of benchmarks/claims is one claim.  Each runs in a fresh process; within it, what is compared takes turns in
short blocks, so that whatever else the machine does meets both alike.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import pairs
from claims_kit import Case
from fitdoctor.model import Interval
from folklore_page import Claim, Measured, outcome, page, verdict

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "folklore.md"
SECONDS = 10.0
WARM_UP_S = 0.5
FEWEST, MOST = 6, 80
TIMEOUT = 300.0
PACKAGES = ("keras", "tensorflow-cpu", "tensorflow", "numpy")


def names() -> list[str]:
    """Return all claims."""
    return sorted(path.stem for path in (HERE / "claims").glob("*.py") if path.stem != "__init__")


def measure(case: Case, seconds: float) -> Measured:
    """Run both sides of a case in turns."""
    for block in (case.before, case.after):
        block()
        start = time.perf_counter()
        while time.perf_counter() - start < WARM_UP_S:
            block()
    times: dict[str, list[float]] = {"slow": [], "fast": []}
    blocks = {"slow": case.before, "fast": case.after}
    start = time.perf_counter()
    for done, order in enumerate(pairs.in_turns(MOST)):
        if done >= FEWEST and time.perf_counter() - start > seconds:
            break
        for which in order:
            began = time.perf_counter()
            work = blocks[which]()
            times[which].append((time.perf_counter() - began) / work)
    ratio = pairs.middle([slow / fast for slow, fast in zip(times["slow"], times["fast"], strict=True)])
    middle = {which: sorted(each)[len(each) // 2] for which, each in times.items()}
    return Measured(case.name, case.unit, middle["slow"], middle["fast"], ratio, len(times["slow"]))


def try_claim(name: str, seconds: float) -> list[dict[str, Any]]:
    """Measure all cases of a claim, in this process."""
    module = importlib.import_module(f"claims.{name}")
    return [asdict(measure(case, seconds)) for case in module.cases()]


def described(name: str) -> tuple[str, str, tuple[str, ...]]:
    """Return what a claim says, what is compared, and where it is said."""
    module = importlib.import_module(f"claims.{name}")
    says, _, compared = (module.__doc__ or "").strip().partition("\n")
    return says.rstrip("."), " ".join(compared.split()), tuple(module.SAID)


def in_fresh_process(name: str, seconds: float) -> Claim:
    """Measure a claim in a process of its own."""
    says, compared, said = described(name)
    env = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [sys.executable, __file__, "--inside", name, str(out), "--seconds", str(seconds)]
        try:
            done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return Claim(name, says, compared, said, (), "it took too long")
        if done.returncode != 0:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            return Claim(name, says, compared, said, (), last[0] if last else f"exit code {done.returncode}")
        cases = tuple(Measured.read(each) for each in json.loads(out.read_text()))
    return Claim(name, says, compared, said, cases)


def versions() -> str:
    """Return what the frameworks were."""
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join([f"python {sys.version.split()[0]}", *found])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="CLAIM", nargs="+", help="only these, and write no page")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"for each case (default: {SECONDS:.0f})")
    parser.add_argument("--dry-run", action="store_true", help="write no page")
    parser.add_argument("--inside", nargs=2, metavar=("CLAIM", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        name, out = args.inside
        Path(out).write_text(json.dumps(try_claim(name, args.seconds)))
        return 0
    unknown = sorted(set(args.only or ()) - set(names()))
    if unknown:
        parser.error(f"no such claim: {', '.join(unknown)}; there are {', '.join(names())}")
    claims, waiting = [], []
    for name in args.only or names():
        waiting.append(os.getloadavg()[0])
        start = time.perf_counter()
        claim = in_fresh_process(name, args.seconds)
        claims.append(claim)
        print(f"{claim.says} ({time.perf_counter() - start:.0f} s)\n  {verdict(claim)}", flush=True)
        for each in claim.cases:
            print(f"  {each.name}: {shown(each.ratio)} {outcome(each.ratio)}, {each.pairs} pairs", flush=True)
    if not args.only and not args.dry_run:
        today = datetime.date.today().isoformat()
        text = page(
            claims,
            date=today,
            machine=pairs.machine(),
            versions=versions(),
            seconds=args.seconds,
            waiting=waiting,
        )
        PAGE.write_text(text, "utf-8")
        print(f"wrote {PAGE}")
    return int(any(claim.problem for claim in claims))


def shown(ratio: Interval) -> str:
    return f"{ratio.mid:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


if __name__ == "__main__":
    sys.exit(main())

"""How often the diagnosis is right, and how far its predictions are off: the corpus, run and compared.

    python benchmarks/accuracy.py [--only NAME ...] [--recorded] [--pairs N]

Each slow script is diagnosed as a user would (`fitdoctor run`, capped), then timed against its hand-made fast version,
in turns.  Healthy scripts must give no finding.  The result is docs/accuracy.md; with --only it is printed instead.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import accuracy_page
import pairs
from accuracy_page import Diagnosis, Found, Healthy, Row
from fitdoctor.capture import store
from fitdoctor.model import Interval

PAGE = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"
KEPT = Path(__file__).resolve().parent.parent / "build" / "accuracy"
"""The captures, to look into where a prediction is wrong: fitdoctor diagnose build/accuracy/NAME.fitdoctor."""
RAW = Path(__file__).resolve().parent.parent / "build" / "accuracy.json"


def diagnose(script: Path, *, whole: bool = False) -> tuple[Diagnosis, dict[str, Any]]:
    """Run a script under fitdoctor as a user would; return what it found, and what it says of the run and the lab."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        # Neither the file's name nor its neighbours give the answer away.
        shutil.copy(script, folder / "train.py")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "fitdoctor", "run", "--quiet", *(["--whole"] if whole else [])),
                *("--json", "report.json", "--capture", "run.fitdoctor", "train.py"),
            ],
            cwd=folder,
            env=pairs.environment(folder),
            capture_output=True,
            text=True,
            timeout=pairs.TIMEOUT,
        )
        report = folder / "report.json"
        if not report.exists():
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            return Diagnosis((), f"exit code {done.returncode}: {last[:200]}"), {}
        data = json.loads(report.read_text("utf-8"))
        lab = store.read_meta(folder / "run.fitdoctor").get("lab_time") or {}
        KEPT.mkdir(parents=True, exist_ok=True)
        name = script.parent.name if script.stem == "slow" else script.stem
        shutil.copy(folder / "run.fitdoctor", KEPT / f"{name}.fitdoctor")
    spent = lab["spent_s"] / lab["given_s"] if lab.get("given_s", 0) > 0 else None
    scale = accuracy_page.of_training(data["run"])
    return Diagnosis(tuple(Found.read(each, scale) for each in data["findings"]), lab_spent=spent), data["run"]


def realised(name: str, truth: pairs.Truth, recorded: bool, count: int) -> tuple[Interval | None, str]:
    """Return the measured saving of the fast version, or why there is none."""
    if recorded:
        return (
            (pairs.saving_of(truth.speedup), "") if truth.speedup else (None, "never measured: run without --recorded")
        )
    try:
        slow, fast = pairs.measure(pairs.CORPUS / name, count)
    except pairs.BenchmarkError as error:
        return None, str(error).splitlines()[0]
    return pairs.saving_of(pairs.ratio(slow, fast)), ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", nargs="+", help="only these pairs or healthy scripts; print the page")
    parser.add_argument("--recorded", action="store_true", help="take the realised gains from truth.toml")
    parser.add_argument("--pairs", type=int, default=5, help="how often slow and fast are timed (default: 5)")
    args = parser.parse_args()
    scripts = {path.stem: path for path in pairs.healthy()}
    known = [*pairs.names(), *scripts]
    wanted = args.only or known
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        parser.error(f"no such script: {', '.join(unknown)}; there are {', '.join(known)}")

    rows, healthy, versions = [], [], {}
    for name in [each for each in wanted if each in pairs.names()]:
        truth = pairs.read_truth(pairs.CORPUS / name / "truth.toml")
        diagnosis, run = diagnose(pairs.CORPUS / name / "slow.py", whole=truth.whole)
        versions.update({key: value for key, value in (run.get("versions") or {}).items() if value})
        saving, problem = realised(name, truth, args.recorded, args.pairs)
        rows.append(Row(name, truth.backend, truth.lines, diagnosis, saving, problem))
        print(accuracy_page.line(rows[-1]), flush=True)
    for name in [each for each in wanted if each in scripts]:
        diagnosis, run = diagnose(scripts[name])
        versions.update({key: value for key, value in (run.get("versions") or {}).items() if value})
        healthy.append(Healthy(name, diagnosis))
        print(f"{name}: {accuracy_page.said(diagnosis)}", flush=True)

    how = "as recorded in the corpus" if args.recorded else f"{args.pairs} runs each, slow and fast in turns"
    text = accuracy_page.page(
        rows, healthy, machine=pairs.machine(), versions=versions, date=datetime.date.today().isoformat(), how=how
    )
    RAW.parent.mkdir(parents=True, exist_ok=True)
    RAW.write_text(json.dumps(accuracy_page.raw(rows, healthy), indent=1), "utf-8")
    if args.only:
        print(f"\n{text}")
    else:
        PAGE.write_text(text, "utf-8")
        print(f"\nwritten: {PAGE.relative_to(PAGE.parent.parent)}; every number: {RAW.relative_to(RAW.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How often the diagnosis is right, and how far its predictions are off: the corpus, run and compared.

    python benchmarks/accuracy.py [--only NAME ...] [--recorded] [--pairs N] [--again]

Each slow script is diagnosed as a user would (`fitdoctor run`, capped), then timed against its hand-made fast version,
in turns, and what that gains is written into its truth.toml: near each other, since a shared machine was seen to take
twice as long two hours before, and not for both scripts alike.  Healthy scripts must give no finding.  The result is
docs/accuracy.md; with --only it is printed instead.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import accuracy_page
import measure_gain
import pairs
from accuracy_page import Diagnosis, Found, Healthy, Row
from fitdoctor import pipeline
from fitdoctor.capture import store

PAGE = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"
KEPT = Path(__file__).resolve().parent.parent / "build" / "accuracy"
"""The captures, to look into where a prediction is wrong: fitdoctor diagnose build/accuracy/NAME.fitdoctor."""
AGREE = 0.04
"""Two pairs of runs that tell the same to within this are enough."""
RAW = Path(__file__).resolve().parent.parent / "build" / "accuracy.json"


def diagnose(script: Path, *options: str) -> tuple[Diagnosis, Mapping[str, Any]]:
    """Run a script under fitdoctor as a user would; return what it found, and what it says of the run and the lab.

    Again, where others on the same host disturbed it.
    """
    capture, problem = pairs.undisturbed(lambda: _captured(script, options))
    if problem:
        return Diagnosis((), problem), {}
    KEPT.mkdir(parents=True, exist_ok=True)
    kept(script).write_bytes(capture)
    return judged(kept(script))


def _captured(script: Path, options: Sequence[str]) -> tuple[bytes, str]:
    """Return the capture of a run, or what went wrong."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        # Neither the file's name nor its neighbours give the answer away.
        shutil.copy(script, folder / "train.py")
        words = ("run", "--quiet", *options, "--json", "report.json", "--capture", "run.fitdoctor", "train.py")
        done = pairs.fitdoctor(folder, *words)
        if not (folder / "report.json").exists():
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            return b"", f"exit code {done.returncode}: {last[:200]}"
        return (folder / "run.fitdoctor").read_bytes(), ""


def kept(script: Path) -> Path:
    """Return where the capture of a script is kept."""
    return KEPT / f"{script.parent.name if script.stem == 'slow' else script.stem}.fitdoctor"


def judged(capture: Path) -> tuple[Diagnosis, Mapping[str, Any]]:
    """Return what fitdoctor says of a capture, its savings as shares of the training."""
    if not capture.exists():
        return Diagnosis((), "there is no capture of an earlier run"), {}
    report = pipeline.diagnose_file(capture)
    lab = store.read_meta(capture).get("lab_time") or {}
    spent = lab["spent_s"] / lab["given_s"] if lab.get("given_s", 0) > 0 else None
    read = store.read(capture)
    outside, model = pairs.compiled_outside(read), pairs.model_of(read)
    findings = tuple(Found.of(each, report.run, outside, model) for each in report.findings)
    return Diagnosis(findings, lab_spent=spent), report.run


def timed(name: str, count: int) -> str:
    """Time a pair and write down what it gains; return what went wrong."""
    folder = pairs.CORPUS / name
    try:
        table = measure_gain.measure(folder, count, agree=AGREE)
    except pairs.BenchmarkError as error:
        return str(error).splitlines()[0]
    measure_gain.write_gain(folder / "truth.toml", table)
    return ""


def realised(name: str) -> tuple[pairs.Gain | None, str]:
    """Return the measured gain of the fast version, or why there is none that can be compared."""
    folder = pairs.CORPUS / name
    gain = pairs.read_truth(folder / "truth.toml").gain
    if gain is None:
        return None, "never measured: run without --recorded"
    if gain.scripts != pairs.scripts(folder):
        return None, "measured before the scripts were changed: run without --recorded"
    if gain.machine != pairs.machine():
        return None, f"measured on another machine ({gain.machine}): run without --recorded"
    return gain, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", nargs="+", help="only these pairs or healthy scripts; print the page")
    parser.add_argument("--recorded", action="store_true", help="time nothing: take the gains from truth.toml")
    parser.add_argument(
        "--pairs", type=int, default=5, help="how often slow and fast are timed, until two agree (default: 5 at most)"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="run nothing: judge the last run's captures anew; gains from truth.toml",
    )
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
        slow = pairs.CORPUS / name / "slow.py"
        diagnosis, run = judged(kept(slow)) if args.again else diagnose(slow, *truth.options)
        versions.update({key: value for key, value in (run.get("versions") or {}).items() if value})
        problem = "" if args.again or args.recorded else timed(name, args.pairs)
        gain, missing = realised(name) if not problem else (None, problem)
        saving = pairs.saving_of(gain.speedup) if gain else None
        steady = pairs.saving_of(gain.steady) if gain and gain.steady else None
        runs = gain.pairs if gain else 0
        repeat = pairs.repeat(gain) if gain else None
        day = gain.date if gain else ""
        rows.append(Row(name, truth.backend, truth.lines, diagnosis, saving, missing, runs, steady, repeat, day))
        print(accuracy_page.line(rows[-1]), flush=True)
    for name in [each for each in wanted if each in scripts]:
        diagnosis, run = judged(kept(scripts[name])) if args.again else diagnose(scripts[name])
        versions.update({key: value for key, value in (run.get("versions") or {}).items() if value})
        healthy.append(Healthy(name, diagnosis))
        print(f"{name}: {accuracy_page.said(diagnosis)}", flush=True)

    text = accuracy_page.page(
        rows,
        healthy,
        machine=pairs.machine(),
        versions=versions,
        date=datetime.date.today().isoformat(),
        again=args.again,
    )
    if args.only:
        print(f"\n{text}")
    else:
        PAGE.write_text(text, "utf-8")
        RAW.parent.mkdir(parents=True, exist_ok=True)
        RAW.write_text(json.dumps(accuracy_page.raw(rows, healthy), indent=1), "utf-8")
        print(f"\nwritten: {PAGE.relative_to(PAGE.parent.parent)}; every number: {RAW.relative_to(RAW.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

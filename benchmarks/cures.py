"""`fitdoctor cure` on scripts of the corpus: the table in the README.

    python benchmarks/cures.py [--only NAME ...] [--budget S]

Each slow script is copied to a folder of its own, as a user would have it, and cured there: diagnosed, edited, proved.
The table goes between the marks in README.md; with --only it is printed instead.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pairs

README = Path(__file__).resolve().parent.parent / "README.md"
NAMES = ("eager-step", "dispatch-bound", "per-element-map", "repeated-preprocessing", "worker-churn")
BEGIN, END = "<!-- cured: written by make bench-cure -->", "<!-- /cured -->"
HEAD = "| slow script | on | what was kept | predicted | proved | learning |\n|---|---|---|---|---|---|\n"


def cured(name: str, budget: float) -> tuple[str, dict[str, Any]]:
    """Cure a copy of a slow script; return its first line, and what was proved."""
    script = pairs.CORPUS / name / "slow.py"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copy(script, folder / "train.py")
        done = pairs.fitdoctor(
            folder, "cure", "--quiet", "--fresh", "--budget", f"{budget:g}", "--json", "cured.json", "train.py"
        )
        if not (folder / "cured.json").exists():
            raise pairs.BenchmarkError(f"{name}: exit code {done.returncode}: {done.stderr[-500:]}")
        data: dict[str, Any] = json.loads((folder / "cured.json").read_text("utf-8"))
    return script.read_text("utf-8").splitlines()[0].strip('"'), data


def row(name: str, about: str, data: dict[str, Any]) -> str:
    """Return a line of the table."""
    backend = pairs.read_truth(pairs.CORPUS / name / "truth.toml").backend
    link = f"[{about.rstrip('.')}](corpus/{name}/slow.py)"
    if not data["kept"]:
        why = data["proofs"][0]["verdict"] if data["proofs"] else "nothing was found"
        return f"| {link} | {backend} | nothing: {why} | | | |"
    proof = next(each for each in data["proofs"] if each["rules"] == data["kept"] and each["verdict"] == "PROVED")
    predicted = times(proof["predicted"]) if proof.get("predicted") else ""
    kept = ", ".join(f"`{each}`" for each in data["kept"])
    return f"| {link} | {backend} | {kept} | {predicted} | {times(proof['speedup'])} | {proof['equivalence']['kind']} |"


def times(speedup: dict[str, float]) -> str:
    """Return a speed-up as a reader takes it in."""
    high = f"{speedup['high']:.1f}" if speedup["high"] is not None and speedup["high"] < 100 else "over 100"
    return f"{speedup['mid']:.1f}× ({speedup['low']:.1f} to {high})"


def with_table(text: str, table: str) -> str:
    """Return the README with what stands between the marks replaced."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", nargs="+", help="only these pairs; print the table")
    parser.add_argument("--budget", type=float, default=240.0, help="seconds for the proof of each (default: 240)")
    args = parser.parse_args()
    rows = []
    for name in args.only or NAMES:
        rows.append(row(name, *cured(name, args.budget)))
        print(rows[-1], flush=True)
    when = datetime.date.today().isoformat()
    told = (
        f"`fitdoctor cure` on {len(rows)} scripts of the [corpus](corpus/README.md), measured on {when}: "
        f"{pairs.machine()}.\n"
    )
    table = f"{HEAD}{chr(10).join(rows)}\n\n{told}"
    if args.only:
        print(f"\n{table}")
    else:
        README.write_text(with_table(README.read_text("utf-8"), table), "utf-8")
        print(f"written: {README.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether a proof can be believed: the same against itself, and what was proved once proved again with another seed.

    python benchmarks/proofs.py [--count N] [--backends NAME ...] [--budget S] [--print]
    python benchmarks/proofs.py --again [NAME ...] [--budget S]

The first runs `fitdoctor prove X X` on short trainings, on the backends in turns: whatever it says but NO_EFFECT is
wrong.  How long every run took is kept in tests/proof/noise.json: the intervals are tried on that recorded noise.  The
second lets `fitdoctor cure` edit slow scripts of the corpus, gives the script before and after another seed (for its
weights, its order and its data), and proves them anew: a fix that was accepted and is not PROVED then has failed.  Both
write their part of docs/proofs.md; with --print, or names of scripts, it is printed instead.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pairs

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "proofs.md"
NOISE = ROOT / "tests" / "proof" / "noise.json"
BACKENDS = ("tensorflow", "jax", "torch")
SEED = 20
_SEEDED = re.compile(r"(set_random_seed\(|\bseed=|default_rng\(|manual_seed\(|SeedGenerator\()\d+")
HEAD = """# Whether proofs can be believed

Written by `make bench-prove`; do not edit.
"""
TITLES = {"itself": "## The same against itself", "again": "## Proved once, and again with another seed"}
SCRIPTS = {
    "dense": """
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(1)])
x = rng.standard_normal((8192, 64)).astype("float32")
""",
    "convolution": """
layers = [keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((16, 16, 3)), *layers])
x = rng.standard_normal((4096, 16, 16, 3)).astype("float32")
""",
    "recurrent": """
model = keras.Sequential([keras.Input((12, 8)), keras.layers.GRU(16), keras.layers.Dense(1)])
x = rng.standard_normal((4096, 12, 8)).astype("float32")
""",
}
BEGIN = "import keras\nimport numpy as np\n\nkeras.utils.set_random_seed(1)\nrng = np.random.default_rng(0)\n"
END = """
model.compile("adam", "mse")
model.fit(x, x.reshape(len(x), -1)[:, :1], batch_size=32, epochs=60, shuffle=False, verbose=0)
"""


def proved(folder: Path, before: str, after: str, budget: float, *, backend: str | None = None) -> Any:
    """Prove one script against another in a folder; return the proof as data."""
    result = folder / "proof.json"
    result.unlink(missing_ok=True)
    words = ("prove", "--quiet", "--budget", f"{budget:g}", "--json", result.name, before, after)
    done = pairs.fitdoctor(folder, *words, **({"KERAS_BACKEND": backend} if backend else {}))
    if not result.exists():
        raise pairs.BenchmarkError(f"{before} against {after}: exit code {done.returncode}: {done.stderr[-500:]}")
    return json.loads(result.read_text("utf-8"))


def told(proof: Any) -> str:
    """Return a proof as cells of a table."""
    speedup = proof["speedup"]
    ratio = f"{speedup['mid']:.3f} ({speedup['low']:.3f} to {speedup['high']:.3f})"
    return f"{len(proof['schedule']) // 2} | {ratio} | {proof['equivalence']['kind']} | {proof['verdict']}"


def against_itself(count: int, backends: list[str], budget: float) -> tuple[list[str], list[Any]]:
    """Prove short trainings against themselves."""
    lines, proofs = [], []
    names = list(SCRIPTS)
    for number in range(count):
        backend = backends[number % len(backends)]
        name = names[(number + number // len(names)) % len(names)]
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            (folder / "train.py").write_text(BEGIN + SCRIPTS[name] + END, "utf-8")
            proof = proved(folder, "train.py", "train.py", budget, backend=backend)
        proofs.append({"backend": backend, "training": name, **proof})
        lines.append(f"| {name} | {backend} | {told(proof)} |")
        print(lines[-1], flush=True)
    return lines, proofs


def itself_part(count: int, backends: list[str], budget: float, *, keep: bool) -> tuple[str, bool]:
    """Return this part of the page, and whether all is as it should be."""
    lines, proofs = against_itself(count, backends, budget)
    if keep:
        kept = [{"backend": each["backend"], "training": each["training"], **each["runs_s"]} for each in proofs]
        about = f"fitdoctor prove X X on {datetime.date.today().isoformat()}, every proof that was made"
        record = {"about": about, "machine": pairs.machine(), "proofs": kept}
        NOISE.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    right = sum(each["verdict"] == "NO_EFFECT" for each in proofs)
    text = (
        f"`fitdoctor prove train.py train.py`, {len(proofs)} times, on {when()}: **{right} of {len(proofs)} said "
        "NO_EFFECT**.\n\n| training | backend | pairs | speed-up | learning | verdict |\n|---|---|---|---|---|---|\n"
    )
    return text + "\n".join(lines) + "\n", right == len(proofs)


def reseeded(text: str) -> str:
    """Return a script with every seed that is written in it changed."""
    return _SEEDED.sub(lambda found: f"{found[1]}{SEED}", text)


def again(name: str, budget: float) -> tuple[str, str]:
    """Cure a slow script and prove what was written anew, with another seed; return a line, and the verdict."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        script = Path(shutil.copy(pairs.CORPUS / name / "slow.py", folder / "train.py"))
        before = script.read_text("utf-8")
        words = ("--quiet", "--fresh", "--budget", f"{budget:g}", "--json", "cured.json", script.name)
        done = pairs.fitdoctor(folder, "cure", *words)
        if not (folder / "cured.json").exists():
            raise pairs.BenchmarkError(f"{name}: exit code {done.returncode}: {done.stderr[-500:]}")
        kept = json.loads((folder / "cured.json").read_text("utf-8"))["kept"]
        if not kept:
            return f"| {name} | nothing was accepted | | | | |", ""
        if reseeded(before) == before:
            raise pairs.BenchmarkError(f"{name}: no seed is written in it")
        (folder / "before.py").write_text(reseeded(before), "utf-8")
        (folder / "after.py").write_text(reseeded(script.read_text("utf-8")), "utf-8")
        proof = proved(folder, "before.py", "after.py", budget)
    return f"| {name} | {', '.join(kept)} | {told(proof)} |", proof["verdict"]


def again_part(names: list[str], budget: float) -> tuple[str, bool]:
    """Return this part of the page, and whether all is as it should be."""
    lines, verdicts = [], []
    for name in names:
        line, verdict = again(name, budget)
        lines.append(line)
        verdicts += [verdict] if verdict else []
        print(line, flush=True)
    failed = sum(each != "PROVED" for each in verdicts)
    text = (
        f"What `fitdoctor cure` accepted on scripts of the [corpus](accuracy.md), proved anew with other seeds on "
        f"{when()}: **{failed} of {len(verdicts)} failed**.\n\n"
        "| slow script | accepted | pairs | speed-up | learning | verdict then |\n|---|---|---|---|---|---|\n"
    )
    return text + "\n".join(lines) + "\n", failed == 0


def when() -> str:
    """Return when and on what it was measured."""
    return f"{datetime.date.today().isoformat()} ({pairs.machine()})"


def with_part(page: str, title: str, text: str) -> str:
    """Return the page with one part of it written anew."""
    kept = {}
    for each in re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]:
        kept[each.splitlines()[0]] = each.rstrip("\n") + "\n"
    kept[title] = f"{title}\n\n{text}"
    return "\n".join([HEAD, *(kept[each] for each in TITLES.values() if each in kept)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10, help="how many proofs against itself (default: 10)")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--again", metavar="NAME", nargs="*", help="prove accepted fixes anew (default: of all pairs)")
    parser.add_argument("--budget", type=float, default=240.0, help="seconds for each proof (default: 240)")
    parser.add_argument("--print", action="store_true", help="write no file")
    args = parser.parse_args()
    unknown = sorted(set(args.again or ()) - set(pairs.names()))
    if unknown:
        parser.error(f"no such pair: {', '.join(unknown)}; there are {', '.join(pairs.names())}")
    keep = not args.print and not args.again
    if args.again is None:
        title, (text, right) = TITLES["itself"], itself_part(args.count, [*args.backends], args.budget, keep=keep)
    else:
        title, (text, right) = TITLES["again"], again_part(args.again or pairs.names(), args.budget)
    print(f"\n{text}")
    if keep:
        PAGE.write_text(with_part(PAGE.read_text("utf-8") if PAGE.exists() else "", title, text), "utf-8")
        print(f"written: {PAGE.relative_to(ROOT)}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

"""The corpus on disk, and how a slow and a fast script are timed against each other."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fitdoctor.capture import store
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import resolve
from fitdoctor.facts.step_model import StepModel
from fitdoctor.model import Capture, Interval

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Result = TypeVar("Result")

CORPUS = Path(__file__).resolve().parent.parent / "corpus"
HEALTHY = CORPUS / "healthy"
TRAINED = re.compile(r"^trained in (\d+(?:\.\d+)?) s$", re.MULTILINE)
TIMEOUT = 900.0
WATCHED = CORPUS.parent / "build" / "watched"
"""The last watched run of each script: what a fix really left, part by part, beside what was predicted."""


class BenchmarkError(Exception):
    """A script of the corpus did not do what the corpus promises."""


@dataclass(frozen=True)
class Gain:
    """What the fast script of a pair was measured to gain."""

    speedup: Interval
    pairs: int
    date: str
    machine: str
    scripts: str
    """The scripts that were measured, as a hash."""
    steady: Interval | None = None
    """The same without what a longer training would not pay again: how many times as short a step is."""
    ratios: tuple[tuple[float, float], ...] = ()
    """Both, pair of runs by pair of runs."""


@dataclass(frozen=True)
class Truth:
    """What is known about a pair: `truth.toml`."""

    cause: str
    family: str
    line: int
    backend: str
    adapter: str
    identical: bool
    cases: tuple[str, ...]
    also: tuple[int, ...] = ()
    """Other lines of slow.py that are as good an answer."""
    options: tuple[str, ...] = ()
    """Of `fitdoctor run`: without them nothing can tell."""
    gain: Gain | None = None

    @property
    def lines(self) -> tuple[int, ...]:
        """Return every line that is a right answer."""
        return (self.line, *self.also)


def names() -> list[str]:
    """Return the causes that have a pair."""
    return sorted(path.parent.name for path in CORPUS.glob("*/slow.py"))


def healthy() -> list[Path]:
    """Return the scripts in which nothing is worth fixing."""
    return sorted(HEALTHY.glob("*.py"))


def read_truth(path: Path) -> Truth:
    """Read a truth.toml."""
    data = tomllib.loads(path.read_text("utf-8"))
    gain = data.get("gain")
    return Truth(
        cause=data["cause"],
        family=data["family"],
        line=data["line"],
        backend=data["backend"],
        adapter=data["adapter"],
        identical=data["identical"],
        cases=tuple(data["cases"]),
        also=tuple(data.get("also", ())),
        options=tuple(data.get("options", ())),
        gain=_gain(gain) if gain else None,
    )


def read_gain(text: str) -> Gain:
    """Read a [gain] table."""
    return _gain(tomllib.loads(text)["gain"])


def _gain(table: dict[str, Any]) -> Gain:
    intervals = {key: Interval(**table[key]) for key in ("speedup", "steady") if key in table}
    ratios = tuple((float(speedup), float(steady)) for speedup, steady in table.get("ratios", ()))
    return Gain(**{**table, **intervals, "ratios": ratios})


def scripts(folder: Path) -> str:
    """Return a hash of both scripts of a pair."""
    text = b"\0".join((folder / name).read_bytes() for name in ("slow.py", "fast.py"))
    return hashlib.sha256(text).hexdigest()[:16]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a script: it chooses its backend itself, and keeps its traces in its own folder."""
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "FITDOCTOR_HOME": str(folder / "state")}
    env.pop("KERAS_BACKEND", None)
    return env


def fitdoctor(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run fitdoctor in a folder, as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "fitdoctor", *words],
        cwd=folder,
        env={**environment(folder), **env},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def trained_in(output: str) -> float:
    """Return the seconds that a script says its training took."""
    found = TRAINED.findall(output)
    if len(found) != 1:
        raise BenchmarkError(f"expected one line 'trained in ... s' from the script, found {len(found)}")
    return float(found[0])


def run_script(script: Path) -> float:
    """Run a script in a fresh process and folder; return the seconds of its training."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy = shutil.copy(script, folder / "train.py")
        done = subprocess.run(
            [sys.executable, copy],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    if done.returncode != 0:
        raise BenchmarkError(f"{script.parent.name}/{script.name} failed:\n{done.stderr[-2000:]}")
    return trained_in(done.stdout)


@dataclass(frozen=True)
class Watched:
    """A training that was watched from its beginning to its end."""

    seconds: float
    """As the script itself tells."""
    once: float
    """Of them: what a longer training would not pay again."""

    @property
    def steady(self) -> float:
        """Seconds that grow with the number of steps."""
        return max(0.0, self.seconds - self.once)


STOLEN = 0.08
"""A run during which others on the same host took more of the machine's processor time than this says little."""
ATTEMPTS = 2


def undisturbed(run: Callable[[], Result], attempts: int = ATTEMPTS) -> Result:
    """Run something again while others on the same host take the processor away from it; return the calmest result.

    Which run counts is decided by what the hypervisor tells (steal), never by what came out.
    """
    results: list[tuple[float, Result]] = []
    while len(results) < attempts:
        before = processor_time()
        result = run()
        results.append((stolen(before, processor_time()), result))
        if results[-1][0] <= STOLEN:
            break
    return min(results, key=lambda each: each[0])[1]


def processor_time() -> tuple[float, float]:
    """Return the processor time of the whole machine, and of it what others took; zeros where nothing tells."""
    try:
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0, 0.0
    counters = [float(each) for each in words]
    return sum(counters), counters[-1]


def stolen(before: tuple[float, float], after: tuple[float, float]) -> float:
    """Return the share of the processor time between two looks that others took."""
    passed = after[0] - before[0]
    return (after[1] - before[1]) / passed if passed > 0 else 0.0


def watch_script(script: Path) -> Watched:
    """Time a script; again, where others disturbed it."""
    return undisturbed(lambda: _watch(script))


def _watch(script: Path) -> Watched:
    """Run a script in a fresh process and folder, watched and let be (`fitdoctor run --whole`)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(script, folder / "train.py")
        words = ("run", "--quiet", "--whole", "--no-lab", "--json", "report.json", "--capture", "run.fitdoctor")
        done = fitdoctor(folder, *words, "train.py")
        if done.returncode != 0 or not (folder / "report.json").exists():
            raise BenchmarkError(f"{script.parent.name}/{script.name} failed:\n{done.stderr[-2000:]}")
        run = json.loads((folder / "report.json").read_text("utf-8"))["run"]
        outside = compiled_outside(store.read(folder / "run.fitdoctor"))
        WATCHED.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "run.fitdoctor", WATCHED / f"{script.parent.name}.{script.stem}.fitdoctor")
    return Watched(trained_in(done.stdout), paid_once(run, outside))


PAID_ONCE = ("pause", "first epoch")
"""Beside compiling."""


def paid_once(run: Mapping[str, Any], outside: float) -> float:
    """Return the seconds of a training that a longer one would not pay again.

    Tracing and compiling, of which so many seconds more were `outside` of it; what only the first epoch took; and
    pauses between some epochs, which another run of the same script may not have.
    """
    projected = run.get("projected") or {}
    once = sum(float(projected.get(name, 0.0)) for name in PAID_ONCE)
    return max(0.0, projected.get("compiling", 0.0) - outside) + once


def model_of(capture: Capture) -> StepModel | None:
    """Return what a capture tells of a step; None where it tells too little."""
    try:
        return resolve(capture).get(StepModel)
    except MissingEvidence:
        return None


def compiled_outside(capture: Capture) -> float:
    """Return the seconds of compiling before the first training begins and after the last one ends.

    JAX compiles what makes a model's weights; a script may predict with the trained model.  What follows a training
    that was cut short is the lab's.
    """
    trainings = [call for call in capture.calls if call.kind in ("fit", "loop")]
    if not trainings:
        return 0.0
    begins = min(call.start_ns for call in trainings)
    finished = (capture.meta.get("exit") or {}).get("reason") == "finished"
    ends = max(call.end_ns or sys.maxsize for call in trainings) if finished else sys.maxsize
    total = until = 0
    for each in sorted(capture.compiles, key=lambda each: each.start_ns):
        if not begins <= each.start_ns < ends:
            # One traces, lowers and compiles inside another.
            end = each.start_ns + each.duration_ns
            end = min(begins, end) if each.start_ns < begins else end
            total += max(0, end - max(until, each.start_ns))
            until = max(until, end)
    return total / 1e9


def in_turns(pairs: int) -> Iterator[tuple[str, str]]:
    """Yield the order within each pair, turned around every time, so that drift hits both alike (ABBA)."""
    for pair in range(pairs):
        yield ("slow", "fast") if pair % 2 == 0 else ("fast", "slow")


def measure(
    folder: Path,
    pairs: int,
    run: Callable[[Path], float] = run_script,
) -> tuple[list[float], list[float]]:
    """Time slow.py and fast.py of a folder in turns; return the seconds of each."""
    times: dict[str, list[float]] = {"slow": [], "fast": []}
    for order in in_turns(pairs):
        for which in order:
            times[which].append(run(folder / f"{which}.py"))
    return times["slow"], times["fast"]


def middle(ratios: Sequence[float]) -> Interval:
    """Return the median of paired ratios with its 95 % bootstrap interval."""
    values = np.array(ratios, float)
    middle = float(np.median(values))
    draws = np.random.default_rng(0).choice(values, size=(4000, len(values)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return Interval(min(float(low), middle), middle, max(float(high), middle))


def repeat(gain: Gain) -> float | None:
    """Return how far what is left of a step, timed once, is off from the same timed again."""
    left = [1 / steady for _, steady in gain.ratios]
    apart = [abs(a - b) / max(a, b) for a, b in itertools.combinations(left, 2)]
    return float(np.median(apart)) if apart else None


def saving_of(speedup: Interval) -> Interval:
    """Return the fraction of the training time that a speed-up saves."""
    return Interval(1 - 1 / speedup.low, 1 - 1 / speedup.mid, 1 - 1 / speedup.high)


def machine() -> str:
    """Return what the numbers were measured on, without the name of the machine."""
    model = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {usable} cores"

"""The bench: which experiments are worth their time, in what order, for how long, and what came of them.

Runs in the user's process once `fit` was unwound.  Every experiment starts from the same snapshot and leaves it as it
was; what is compared is run in turns (ABBA), so that drift hits both alike.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import math
import pkgutil
import statistics
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab import calls, experiments, interrupts
from fitdoctor.lab.beside import JittedStep
from fitdoctor.lab.job import Job
from fitdoctor.lab.snapshot import Snapshot
from fitdoctor.lab.step_blocks import CompiledStep, EagerStep, UnjittedStep
from fitdoctor.model import Gap
from fitdoctor.probes import account as acc
from fitdoctor.probes.recorder import Recorder

TIGHT = 0.02
"""A ratio known to within this is known well enough."""
FEWEST_PAIRS, MOST_PAIRS = 3, 12
LARGE_GAIN, MOST_UNDECIDED = 0.8, 8
"""What takes less than this share of its time could change the diagnosis: if one of its pairs says otherwise, up to so
many are made to tell whether that one was disturbed."""
MOST_SHARE = 0.6
"""Of the time left, the most that an experiment may take beyond its share to be complete: others wait too."""
ASKED_SHARE = 0.5
"""Of the time left, what an experiment may take that was asked for."""
LEAST_SECONDS = 1.0
"""With less time than this left, no experiment is begun."""
FELT = 0.01
"""A share of the step smaller than this is not worth an experiment."""
BESIDE, COMPILED, UNTRACED = "Python beside the device", "the step compiled", "the step without compiling"
CACHED_BATCH = "cached batch"
"""The trial that tells what the step takes when it never waits for data."""
MANY_COMPILATIONS = 6
"""So many steps in which something was compiled are more than the first ones."""
BLOCKS_EXPECTED = 4
"""Blocks that the shortest comparison takes: both sides to warm up, both to measure."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the observed window tells of this job: enough to know which question could change the answer."""

    step_ns: float
    info: dict[str, Any]
    shares: dict[str, float]
    """Of the training thread's time in steps: fetch, run, callbacks, sync, loop; and between epochs, for each of it."""
    compile_s: float = 0.0
    """What tracing and compiling took."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One thing to try: `changed` in turns with `baseline`, each returning nanoseconds; without baseline, alone."""

    name: str
    changed: Callable[[], float]
    baseline: Callable[[], float] | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    late: Callable[[], dict[str, Any]] | None = None
    """More of the detail, known once it ran."""
    pointless: Callable[[], bool] | None = None
    """Asked when its turn comes: what ran before it in the same experiment may have told its answer."""
    block_seconds: float | None = None
    """About how long a block takes; None: as long as one of training."""
    beside_ns: float = 0.0
    """Without a baseline: what it is weighed against. A few hundredths of that are as good as nothing."""


@contextlib.contextmanager
def _unwarned() -> Iterator[None]:
    """What frameworks warn of in experiments is not the user's doing."""
    log = logging.getLogger("tensorflow")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


@_unwarned()
@interrupts.kept_in_mind()
def run(
    recorder: Recorder,
    call: Any,
    model: Any,
    arguments: Any,
    seconds: float,
    tell: Callable[[str], None],
    sooner: tuple[str, ...] = (),
) -> None:
    """Run the experiments that could change the diagnosis of this run, within `seconds`.

    `sooner` are the names of those that were asked for.
    """
    if call.kind == "loop":
        _run_loop(recorder, call, arguments, seconds, tell)
        return
    if call.kind != "fit":
        _run_call(recorder, call, model, arguments, seconds, tell)
        return
    deadline = time.monotonic() + seconds
    seen = _seen(recorder, call)
    every = list(modules())
    try:
        snapshot = Snapshot(model)
    except CannotRun as error:
        _not_run(recorder, _worthwhile(filter(trains, every), seen, []), error.problem, error.do)
        every = [module for module in every if not trains(module)]
        snapshot = Snapshot(None)
    recorder.meta(lab={"state_bytes": snapshot.bytes})
    job = Job(model, str(call.info.get("backend")), *arguments, step_ns=seen.step_ns)
    job.restore = snapshot.restore
    done: list[Any] = []
    spent: dict[str, float] = {}
    while todo := _worthwhile(every, seen, done, sooner):
        left = deadline - time.monotonic()
        if left < LEAST_SECONDS:
            _not_run(recorder, todo, "the budget was used up before it", "give it more time with --budget")
            return
        module = todo[0]
        interrupts.check()
        tell(f"experiment {len(done) + 1} of {len(done) + len(todo)}: {module.NAME}")
        now = time.monotonic()
        try:
            share = ASKED_SHARE if _name(module) in sooner else _share(todo, seen)
            _one(recorder, call, job, seen, module, now + left * share, now + left * max(share, MOST_SHARE))
        finally:
            snapshot.restore()
            spent[module.NAME] = time.monotonic() - now
            recorder.meta(lab={"state_bytes": snapshot.bytes, "spent_s": spent})
        done.append(module)
        if hasattr(module, "learned"):
            seen = module.learned(job, seen)


def _worthwhile(every: Iterable[Any], seen: Seen, done: list[Any], sooner: tuple[str, ...] = ()) -> list[Any]:
    """Return what could change the answer, as much as is known now: what was asked for or could change most first."""
    found = [module for module in every if module not in done and module.worth(seen) > 0]

    def place(module: Any) -> tuple[bool, bool, float]:
        # What has little to tell may still have to come early: others build on it.
        rank = getattr(module, "RANK", None)
        return not getattr(module, "FIRST", False), _name(module) not in sooner, -(rank or module.worth(seen))

    found.sort(key=place)
    return _in_order(found, offered=any(getattr(module, "OFFERS", False) for module in done))


def _name(module: Any) -> str:
    return str(getattr(module, "__name__", "")).rpartition(".")[2]


def _in_order(todo: list[Any], *, offered: bool) -> list[Any]:
    """Put what trains on the offers of others right behind the last of those; without any it has nothing to do."""
    after = [module for module in todo if getattr(module, "AFTER_OFFERS", False)]
    rest = [module for module in todo if module not in after]
    last = max((place for place, module in enumerate(rest) if getattr(module, "OFFERS", False)), default=-1)
    return [*rest[: last + 1], *after, *rest[last + 1 :]] if offered or last >= 0 else rest


def _share(todo: list[Any], seen: Seen) -> float:
    """Return the share of the time left that the first of these may use: more for what could change more.

    By the root of its worth, so that no other starves; what it leaves goes to the others.
    """
    weights = [math.sqrt(module.worth(seen)) for module in todo]
    return weights[0] / sum(weights)


def _one(recorder: Recorder, call: Any, job: Job, seen: Seen, module: Any, deadline: float, last: float) -> None:
    """Run an experiment until its `deadline`; what could not even be begun by then may go on, not beyond the `last`.

    Those that follow could change less: they get the time that this one leaves.
    """
    job.until, job.last = deadline, last
    with _as_gap(recorder, module.NAME):
        found = list(module.comparisons(job, seen))
        for gap in found:
            if isinstance(gap, Gap):
                recorder.gap(gap.what, gap.reason, gap.remedy)
        comparisons = [each for each in found if isinstance(each, Comparison)]
        for place, comparison in enumerate(comparisons):
            if comparison.pointless is not None and comparison.pointless():
                continue
            needed = BLOCKS_EXPECTED * (comparison.block_seconds or job.block_seconds)
            left = deadline - time.monotonic()
            if left < needed:
                left = min(needed, last - time.monotonic())
            if left < needed:
                raise CannotRun("the budget was used up before it was complete", do="give it more time with --budget")
            until = time.monotonic() + max(needed, left / (len(comparisons) - place))
            job.results[comparison.name] = _compare(recorder, call, comparison, until, last)


def _run_call(
    recorder: Recorder, call: Any, model: Any, arguments: Any, seconds: float, tell: Callable[[str], None]
) -> None:
    """Make a short call in turns with what could stand in its place."""
    deadline = time.monotonic() + seconds
    name = f"{call.kind} at {call.site}"
    tell(f"experiment: {name}")
    with _as_gap(recorder, name):
        if seconds < LEAST_SECONDS:
            raise CannotRun("the budget was used up before it", do="give it more time with --budget")
        with calls.prepared(model):
            short = calls.ShortCall(model, call.kind, *arguments)
            others = short.alternatives()
            for place, (other, function) in enumerate(others.items()):
                if not short.agree(function):
                    continue
                until = time.monotonic() + (deadline - time.monotonic()) / (len(others) - place)
                detail = {"unit": "ns per call", "samples": call.info.get("samples", 0) / call.count}
                comparison = Comparison(other, calls.timed(function), calls.timed(short.as_is), detail)
                _compare(recorder, call, comparison, until)


def _run_loop(recorder: Recorder, call: Any, arguments: Any, seconds: float, tell: Callable[[str], None]) -> None:
    """Run the step of a hand-written loop compiled, where it is not; else beside Python's work, where it waits.

    Where it was compiled again and again, run it on arguments for which it is compiled already.
    """
    if call.op_by_op:
        _run_eager(recorder, call, arguments, seconds, tell)
        return
    if call.step - call.steady >= MANY_COMPILATIONS:
        _run_untraced(recorder, call, arguments, seconds, tell)
        return
    if call.info.get("backend") != "jax":
        return
    seen = _seen(recorder, call)
    python_ns = (seen.shares["loop"] + seen.shares["fetch"]) * seen.step_ns
    if seen.shares["sync"] < FELT or python_ns < FELT * seen.step_ns:
        return
    tell(f"experiment: {BESIDE}")
    with _as_gap(recorder, BESIDE):
        if seconds < LEAST_SECONDS:
            raise CannotRun("the budget was used up before it", do="give it more time with --budget")
        deadline = time.monotonic() + seconds
        function, args, kwargs = arguments
        step = JittedStep(function, args, kwargs)
        step.prepare(python_ns)
        detail = {"python_ns": python_ns}
        _compare(recorder, call, Comparison(BESIDE, step.overlapped, step.in_turns, detail), deadline)


def _run_untraced(recorder: Recorder, call: Any, arguments: Any, seconds: float, tell: Callable[[str], None]) -> None:
    tell(f"experiment: {UNTRACED}")
    with _as_gap(recorder, UNTRACED):
        if seconds < LEAST_SECONDS:
            raise CannotRun("the budget was used up before it", do="give it more time with --budget")
        deadline = time.monotonic() + seconds
        step = CompiledStep(str(call.info.get("backend")), *arguments)
        _compare(recorder, call, Comparison(CACHED_BATCH, step.block), deadline)


def _run_eager(recorder: Recorder, call: Any, arguments: Any, seconds: float, tell: Callable[[str], None]) -> None:
    tell(f"experiment: {COMPILED}")
    with _as_gap(recorder, COMPILED):
        if arguments is None:
            raise CannotRun("the step is no function of its own", do="put the step into a function, then run it again")
        if seconds < LEAST_SECONDS:
            raise CannotRun("the budget was used up before it", do="give it more time with --budget")
        deadline = time.monotonic() + seconds
        step = (UnjittedStep if call.info.get("backend") == "jax" else EagerStep)(*arguments)
        detail = {"compile_s": step.compile_s}
        _compare(recorder, call, Comparison("compiled", step.compiled, step.as_is, detail), deadline)


@contextlib.contextmanager
def _as_gap(recorder: Recorder, name: str) -> Iterator[None]:
    """Turn what keeps an experiment from running into a gap."""
    try:
        yield
    except CannotRun as error:
        recorder.gap(f"experiment: {name}", error.problem, error.do or Gap.DOES_NOT_APPLY)
    except Exception as error:
        # Not the message: frameworks put the values of arrays into it.
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
        recorder.gap(f"experiment: {name}", f"this job does not run so: {reason}", "try it in the script")


def _compare(
    recorder: Recorder, call: Any, comparison: Comparison, deadline: float, last: float | None = None
) -> float:
    """Run both in turns and write it down; return the middle of changed over baseline, of changed without one."""
    try:
        before, after, cores = _in_turns(comparison, deadline, deadline if last is None else last)
    except BaseException:
        # What it holds (workers, iterators, generators to be put back) ends with it all the same.
        with contextlib.suppress(Exception):
            _late(comparison)
        raise
    detail = {"unit": "ns per step", **cores, **comparison.detail, **_late(comparison)}
    row = (comparison.name, call.id, json.dumps(before), json.dumps(after), json.dumps(detail))
    recorder.add("trials", row)
    # The first block compiles.
    own = after[1:] or after
    return statistics.median(b / a for a, b in zip(before, after, strict=True)) if before else statistics.median(own)


def _late(comparison: Comparison) -> dict[str, Any]:
    return comparison.late() if comparison.late is not None else {}


def _in_turns(
    comparison: Comparison, deadline: float, last: float
) -> tuple[list[float], list[float], dict[str, float]]:
    """Return what the baseline and the changed took, block by block, and how many cores the latter kept busy.

    Fewer pairs than the fewest say next to nothing, nor do pairs that contradict each other on a large gain: more are
    made beyond the deadline too, not beyond the `last`.
    """
    before: list[float] = []
    after: list[float] = []
    wall = cpu = 0
    while len(after) < MOST_PAIRS:
        begun = time.monotonic()
        for which in (0, 1) if len(after) % 2 else (1, 0):
            interrupts.check()
            if which:
                start, used = time.perf_counter_ns(), time.process_time_ns()
                after.append(comparison.changed())
                # The first block compiles.
                if len(after) > 1:
                    wall, cpu = wall + time.perf_counter_ns() - start, cpu + time.process_time_ns() - used
            elif comparison.baseline is not None:
                before.append(comparison.baseline())
        now = time.monotonic()
        # The first pair compiles; the next one is shorter.
        needed = now - begun if len(after) > 1 else 0.0
        enough = len(after) >= FEWEST_PAIRS and not _undecided(before, after)
        if now + needed >= (deadline if enough else last):
            break
        if len(after) >= FEWEST_PAIRS and _spread(before, after) < _tight(comparison, after):
            break
    return before, after, {"cores": cpu / wall} if wall else {}


def _tight(comparison: Comparison, after: list[float]) -> float:
    """Return to within which fraction a comparison has to be known."""
    return TIGHT * max(1.0, comparison.beside_ns / max(1.0, statistics.median(after)))


def _undecided(before: list[float], after: list[float]) -> bool:
    """Tell whether most pairs show a large gain, and one of them none."""
    ratios = [late / early for early, late in zip(before, after, strict=False) if early > 0]
    return FEWEST_PAIRS <= len(ratios) < MOST_UNDECIDED and statistics.median(ratios) < LARGE_GAIN and max(ratios) >= 1


def _spread(before: list[float], after: list[float]) -> float:
    """Return how far the mean of the ratios (or of the times alone) may be off, 19 times in 20, roughly."""
    logs = [math.log(b / a) for a, b in zip(before, after, strict=True)] if before else [math.log(b) for b in after]
    mean = sum(logs) / len(logs)
    variance = sum((each - mean) ** 2 for each in logs) / (len(logs) - 1)
    # Student's t for few pairs.
    return (2 + 4 / len(logs)) * math.sqrt(variance / len(logs))


def _seen(recorder: Recorder, call: Any) -> Seen:
    totals = recorder.account.totals
    steady = max(1, totals[acc.STEADY])
    names = ("fetch", "transfer", "run", "callbacks", "sync", "loop")
    shares = {name: totals[bucket] / steady for name, bucket in zip(names, acc.STEP_BUCKETS, strict=True)}
    # Before the first epoch everything is made for the first time.
    shares["between epochs"] = totals[acc.BETWEEN] / steady if call.epoch else 0.0
    return Seen(steady / max(1, call.steady), dict(call.info), shares, totals[acc.COMPILING] / 1e9)


def modules() -> Iterator[Any]:
    """Yield the experiments there are."""
    for found in pkgutil.iter_modules(experiments.__path__):
        yield importlib.import_module(f"{experiments.__name__}.{found.name}")


def trains(module: Any) -> bool:
    """Tell whether an experiment changes the model's state."""
    return bool(getattr(module, "TRAINS", True))


def _not_run(recorder: Recorder, modules: list[Any], reason: str, remedy: str) -> None:
    for module in modules:
        recorder.gap(f"experiment: {module.NAME}", reason, remedy)

"""Which part of a step each nanosecond belongs to: one derivation per kind of backend."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fitdoctor.facts import host_reads, rows
from fitdoctor.facts.training import Training
from fitdoctor.model import PARTS, Call, Capture, Gap, Inside, Interval, Steps

INLINE = 0.8
"""A launch that lasts this share of the whole step's device time ran the step itself."""

TICKED = 0.9
"""Clocks in the graph that saw this share of the steps between two readings ran all the time."""

_PYTHON_ADAPTERS = frozenset({"PyDataset", "generator", "DataLoader", "Grain"})

_INLINE = Gap("launch cost", "the runtime ran the step inside its launch", "none on this device")


@dataclass(frozen=True, slots=True)
class Split:
    """A step and its parts in seconds, with how each part was obtained."""

    step: Interval
    parts: Mapping[str, Interval]
    how: Mapping[str, str]
    gaps: Mapping[str, Gap]
    hidden: float = 0.0
    """Seconds of input per step that passed while the device computed."""


def split(capture: Capture, training: Training, *, accelerator: bool, work_alone: Interval | None = None) -> Split:
    """Split the steady steps of a training.

    `work_alone`: seconds that the lab measured of the step on one batch, again and again.
    """
    seen = [(call, capture.steps[call.id]) for call in training.calls if call.id in capture.steps]
    windows = _windows(capture, seen)
    if windows is not None:
        # Python that prepares batches beside the step is the only Python that can hold the GIL against it.
        python_input = bool(capture.pyfuncs) or training.info.get("adapter") in _PYTHON_ADAPTERS
        every = rows.joined([steps for _, steps in seen])
        found = _in_graph(windows, rows.observed(every), python_input=python_input)
    elif any(call.id in capture.drained for call, _ in seen):
        reader = _reader(capture, training)
        found = _awaited(capture, seen, reader) if reader else _asynchronous(capture, seen)
    else:
        found = _synchronous(training, seen)
    found = _by_the_lab(found, work_alone)
    return _with_transfer(_with_rests(found, seen), accelerator=accelerator)


def _by_the_lab(found: Split, work_alone: Interval | None) -> Split:
    """Tell input from compute by what the step takes without input, where the run itself could not tell them apart."""
    if "input" not in found.gaps or work_alone is None:
        return found
    compute = found.parts["compute"]
    waits = max(0.0, compute.mid - work_alone.mid)
    spread = sorted((max(0.0, compute.low - work_alone.high), waits, max(0.0, compute.high - work_alone.low)))
    rest = compute.mid - waits
    parts = {
        **found.parts,
        "input": Interval.around(spread),
        "compute": Interval(min(rest, work_alone.low), rest, max(rest, work_alone.high)),
    }
    how = {
        **found.how,
        "input": "what the step took beyond what the lab measured of it on one batch, again and again",
        "compute": "what the lab measured of the step on one batch, again and again",
    }
    gaps = {part: gap for part, gap in found.gaps.items() if part != "input"}
    return Split(found.step, parts, how, gaps, found.hidden)


def _reader(capture: Capture, training: Training) -> str:
    """Say who waits for each step's results before the next step begins; nobody: an empty string."""
    if training.kind == "fit":
        return "a callback" if training.info.get("async_callbacks") is False else ""
    line = host_reads.establish(capture, training).waiting
    return f"line {line.site.line}" if line is not None else ""


def _with_rests(found: Split, seen: list[tuple[Call, Steps]]) -> Split:
    """Say where only some of the steps were taken apart."""
    every = rows.joined([steps for _, steps in seen])
    rested = int(every.count[(every.flags & Steps.RESTED) != 0].sum())
    if not rested:
        return found
    total = int(every.count[rows.steady(every)].sum())
    said = f" ({total - rested} of {total} steps)"
    how = {part: text + said if part in ("input", "compute") else text for part, text in found.how.items()}
    return Split(found.step, found.parts, how, found.gaps, found.hidden)


def _with_transfer(found: Split, *, accelerator: bool) -> Split:
    how, gaps = dict(found.how), dict(found.gaps)
    if found.parts["transfer"].mid > 0:
        how["transfer"] = "timed on the training thread"
    elif not accelerator:
        how["transfer"] = "no separate device memory"
    else:
        how["transfer"] = "not seen"
        gaps["transfer"] = Gap(
            "copies to the device",
            "this backend gives no time for them; they stand under another part of the step",
            "record a device trace with the framework's own profiler",
        )
    return Split(found.step, found.parts, how, gaps, found.hidden)


def _settle(step: Interval, raw: Mapping[str, Interval], rest: str = "other") -> dict[str, Interval]:
    """Make the middles sum to the step: what lacks goes to `rest`, an excess is shared out."""
    total = sum(part.mid for part in raw.values())
    parts = {part: raw.get(part, Interval.exact(0.0)) for part in PARTS}
    if total > step.mid:
        parts = {name: part.scale(step.mid / total) for name, part in parts.items()}
        # Rounding: the middles must sum to the step exactly.
        largest = max(parts, key=lambda name: parts[name].mid)
        return _add(parts, largest, step.mid - sum(part.mid for part in parts.values()), 0.0)
    spread = (step.high - step.low) / 2
    return _add(parts, rest, step.mid - sum(part.mid for part in parts.values()), spread)


def _add(parts: dict[str, Interval], name: str, seconds: float, spread: float) -> dict[str, Interval]:
    here = parts[name]
    mid = max(0.0, here.mid + seconds)
    low = max(0.0, min(mid, here.low + seconds - spread))
    return {**parts, name: Interval(low, mid, max(mid, here.high + seconds + spread))}


def _columns(steps: Steps) -> dict[str, Any]:
    return {
        "step": steps.wall_ns / 1e9,
        "fetch": steps.fetch_ns / 1e9,
        "transfer": steps.transfer_ns / 1e9,
        "run": steps.run_ns / 1e9,
        "callbacks": steps.callbacks_ns / 1e9,
        "sync": steps.sync_ns / 1e9,
    }


_HOW = {
    "callbacks": "timed on the training thread, hook by hook",
    "sync": "time blocked reading results back",
    "other": "the rest of the step: the loop's own Python",
}


# --- TensorFlow: the batch is fetched inside the compiled step -----------------------------------------


@dataclass(frozen=True, slots=True)
class _Windows:
    """Stretches between two readings of the clocks in the graph, without warm-up; one entry per stretch."""

    wait: list[float]
    compute: list[float]
    blocked: list[float]
    """Seconds the training thread neither ran nor waited for the graph: blocked on the GIL or without a core."""
    count: list[float]
    rows: list[Steps]


def _windows(capture: Capture, seen: list[tuple[Call, Steps]]) -> _Windows | None:
    found = _Windows([], [], [], [], [])
    for call, steps in seen:
        inside = capture.inside.get(call.id)
        for first, last, wait, compute, cpu in _pairs(inside) if inside is not None else ():
            window = rows.choose(steps, (steps.step >= first) & (steps.step + steps.count <= last))
            count = int(window.count.sum())
            if count != last - first or bool((window.flags & (Steps.WARMUP | Steps.RESTED)).any()):
                continue
            found.wait.append(wait)
            found.compute.append(compute)
            idle = float(window.fetch_ns.sum() + window.sync_ns.sum()) / 1e9
            found.blocked.append(max(0.0, float(window.wall_ns.sum()) / 1e9 - wait - compute - idle - cpu))
            found.count.append(float(count))
            found.rows.append(window)
    return found if found.rows else None


def _pairs(inside: Inside) -> list[tuple[int, int, float, float, float]]:
    """Difference neighbouring readings: first step, last step, seconds waited, computed, and of the thread's CPU."""
    columns = (inside.step, inside.count, inside.wait_ns, inside.compute_ns, inside.cpu_ns)
    readings = list(zip(*(column.tolist() for column in columns), strict=True))
    return [
        (before[0], after[0], *((later - earlier) / 1e9 for earlier, later in zip(before[2:], after[2:], strict=True)))
        for before, after in itertools.pairwise(readings)
        # Clocks that run backwards were started anew with a rebuilt train function; where they saw fewer steps than
        # there were, they stood still between two bursts.  (The last execution of an epoch may be a short one.)
        if after[0] > before[0]
        and after[2] >= before[2]
        and after[3] >= before[3]
        and after[1] - before[1] >= TICKED * (after[0] - before[0])
    ]


def _in_graph(windows: _Windows, steady: Steps, *, python_input: bool) -> Split:
    seen = rows.means(_columns(steady), steady.count)
    columns = {"wait": windows.wait, "compute": windows.compute, "blocked": windows.blocked}
    columns["run"] = [float(each.run_ns.sum()) / 1e9 for each in windows.rows]
    clocks = rows.means(columns, windows.count)
    fetch, run = seen["fetch"], seen["run"]
    # The clocks ran in some of the steps: what they tell of those is taken to hold for all.
    known = run.mid / clocks["run"].mid if clocks["run"].mid > 0 else 1.0
    wait, compute, blocked = (clocks[name].scale(known) for name in ("wait", "compute", "blocked"))
    over = wait.mid + compute.mid - run.mid
    if over > 0 and wait.mid + compute.mid > 0:
        # The graph's clocks cannot exceed the call around them by more than their own error.
        wait, compute = (each.scale(run.mid / (run.mid + over)) for each in (wait, compute))
    host = max(0.0, run.mid - wait.mid - compute.mid)
    spread = (run.high - run.low) / 2
    blocked = blocked.clip(0.0, host) if python_input else Interval.exact(0.0)
    host -= blocked.mid
    raw = {
        "input": _sum(wait, fetch, blocked),
        "transfer": seen["transfer"],
        "compute": compute,
        "host": Interval(max(0.0, host - spread), host, host + spread),
        "callbacks": seen["callbacks"],
        "sync": seen["sync"],
    }
    ticked = f" ({int(sum(windows.count))} of {int(steady.count.sum())} steps)"
    how = {
        **_HOW,
        "input": "clock inside the compiled step, around the fetch of the batch" + ticked,
        "compute": "clock inside the compiled step, from the batch to the last op" + ticked,
        "host": "the train function as Python sees it, without the two above",
    }
    if blocked.mid > 0.02 * seen["step"].mid:
        how["input"] += "; and launching blocked while Python in the input held the GIL"
    return Split(seen["step"], _settle(seen["step"], raw), how, {})


def _sum(*intervals: Interval) -> Interval:
    return Interval(*(sum(getattr(each, end) for each in intervals) for end in ("low", "mid", "high")))


# --- asynchronous backends: sampled steps give the device time ----------------------------------------


def _device_times(capture: Capture, seen: list[tuple[Call, Steps]]) -> tuple[list[float], list[float]]:
    """Seconds of launch and of device time per optimizer step, of the sampled steps beyond warm-up."""
    import numpy as np

    launches: list[float] = []
    computes: list[float] = []
    spare: tuple[list[float], list[float]] = ([], [])
    for call, steps in seen:
        drained = capture.drained.get(call.id)
        if drained is None:
            continue
        places = {int(steps.step[row]): row for row in np.flatnonzero(steps.flags & Steps.DRAINED).tolist()}
        for step, launch, compute in zip(
            drained.step.tolist(), drained.launch_ns.tolist(), drained.compute_ns.tolist(), strict=True
        ):
            row = places.get(step)
            count = 1 if row is None else int(steps.count[row])
            warm = row is not None and bool(steps.flags[row] & Steps.WARMUP)
            into = spare if warm else (launches, computes)
            into[0].append(launch / count / 1e9)
            into[1].append(compute / count / 1e9)
    return (launches, computes) if computes else spare


def _typical(samples: list[float]) -> Interval:
    """Average samples without those a pause fell into."""
    limit = 3 * rows.median(samples).mid
    kept = [each for each in samples if each <= limit]
    return rows.means({"device": kept}, [1.0] * len(kept))["device"]


def _awaited(capture: Capture, seen: list[tuple[Call, Steps]], reader: str) -> Split:
    """Split steps of an asynchronous backend whose results somebody reads before the next step begins."""
    every = rows.joined([steps for _, steps in seen])
    chosen = rows.observed(every)
    columns = _columns(chosen)
    columns["device"] = columns["run"] + columns["sync"]
    means = rows.means(columns, chosen.count)
    launches, computes = _device_times(capture, seen)
    launch = rows.median(launches)
    device = means["device"]
    inline = launch.mid >= INLINE * _typical(computes).mid
    host = Interval.exact(0.0) if inline else launch.clip(0.0, device.mid)
    raw = {
        "input": means["fetch"],
        "transfer": means["transfer"],
        "compute": Interval(max(0.0, device.low - host.mid), device.mid - host.mid, max(device.high - host.mid, 0.0)),
        "host": host,
        "callbacks": means["callbacks"],
    }
    how = {
        **_HOW,
        "input": "time blocked asking for the next batch",
        "compute": f"from the launch until {reader} had read the step's results, without the launch",
        "host": "time to launch the step",
        "sync": f"not told from compute: {reader} waits for each step's results",
    }
    gaps = {"host": _INLINE} if inline else {}
    if inline:
        how["host"] = "not told from compute: the runtime ran the step inside the launch"
    return Split(means["step"], _settle(means["step"], raw), how, gaps)


def _ran_ahead(chosen: Steps, device_s: float, launch_s: float) -> float:
    """Seconds per step for which the training thread, being ahead, waited for the device."""
    count = float(chosen.count.sum())
    cut = (chosen.flags & Steps.CUT) != 0
    # Each time the probe lets the device finish, one step's work is under way at most because of the probe.
    waited = float(chosen.sync_ns[cut].sum()) / 1e9 - float(cut.sum()) * device_s
    launched = float(chosen.run_ns.sum()) / 1e9 - count * launch_s
    return (max(0.0, waited) + max(0.0, launched)) / count if count else 0.0


def _asynchronous(capture: Capture, seen: list[tuple[Call, Steps]]) -> Split:
    every = rows.joined([steps for _, steps in seen])
    chosen = rows.observed(every)
    columns = _columns(chosen)
    columns["loop"] = (columns["step"] - sum(columns[name] for name in columns if name != "step")).clip(0)
    seen_ = rows.means(*rows.until_cuts(columns, chosen))
    step = seen_["step"]
    launches, computes = _device_times(capture, seen)
    device, launch = _typical(computes), rows.median(launches)
    compute = device.clip(0.0, step.mid)
    inline = launch.mid >= INLINE * device.mid
    # Only the time the device stood idle needs a culprit on the training thread.  It did not stand idle as far as
    # the training thread had run ahead and had to wait for it: sampled steps, which run alone, may be faster.
    idle = max(0.0, step.mid - compute.mid - _ran_ahead(chosen, device.mid, launch.mid))
    compute = _add({"compute": compute}, "compute", step.mid - idle - compute.mid, 0.0)["compute"]
    doing = {
        "input": seen_["fetch"],
        "transfer": seen_["transfer"],
        "callbacks": seen_["callbacks"],
        "other": seen_["loop"],
    }
    if not inline:
        doing["host"] = launch
    total = sum(part.mid for part in doing.values())
    scale = min(1.0, idle / total) if total > 0 else 0.0
    raw = {"compute": compute, **{name: part.scale(scale) for name, part in doing.items()}}
    hidden = max(0.0, seen_["fetch"].mid * (1 - scale))
    sampled = f"{len(computes)} sampled steps after which the probe waited for the device"
    overlapped = " as far as the device stood idle meanwhile"
    how = {
        "input": "time blocked asking for the next batch," + overlapped,
        "compute": f"mean device time of {sampled}, and waiting for the device beyond it",
        "host": "time to launch the step," + overlapped,
        "callbacks": _HOW["callbacks"] + "," + overlapped,
        "sync": "device idle with nothing on the training thread to explain it",
        "other": "the loop's own Python," + overlapped,
    }
    gaps = {}
    if inline:
        how["compute"] += "; the runtime ran the step inside the launch, so this holds the launch too"
        how["host"] = "not told from compute: the runtime ran the step inside the launch"
        gaps["host"] = _INLINE
    return Split(step, _settle(step, raw, rest="sync"), how, gaps, hidden)


# --- everything that runs as Python runs ----------------------------------------------------------------


def _synchronous(training: Training, seen: list[tuple[Call, Steps]]) -> Split:
    every = rows.joined([steps for _, steps in seen])
    chosen = rows.observed(every)
    means = rows.means(_columns(chosen), chosen.count)
    raw = {
        "input": means["fetch"],
        "transfer": means["transfer"],
        "compute": means["run"],
        "callbacks": means["callbacks"],
        "sync": means["sync"],
    }
    how = {
        **_HOW,
        "input": "time blocked asking for the next batch",
        "compute": "time inside the train function",
        "host": "not told from compute: Python and its ops run in turns inside the train function",
    }
    gaps = _unseen(training, means["fetch"].mid)
    for part in gaps:
        how[part] = "not seen"
    return Split(means["step"], _settle(means["step"], raw), how, gaps)


def _unseen(training: Training, fetch: float) -> dict[str, Gap]:
    gaps = {}
    compiled = training.kind in ("fit", "evaluate", "predict") and not training.info.get("run_eagerly")
    if training.backend == "tensorflow" and compiled and fetch == 0:
        gaps["input"] = Gap(
            "input wait",
            "the batch is fetched inside the compiled step and the clocks inside it were not read twice; "
            "it stands under compute",
            Gap.LONGER,
        )
        if training.info.get("deterministic"):
            gaps["input"] = Gap(
                "input wait",
                "the batch is fetched inside the compiled step, and TensorFlow allows no clocks there under op "
                "determinism; it stands under compute",
                "run it capped, so that the lab can tell them apart: fitdoctor run SCRIPT",
            )
    if training.backend == "jax" and not training.info.get("run_eagerly"):
        gaps["compute"] = Gap(
            "device time",
            "the backend works asynchronously and no steady step was sampled",
            Gap.LONGER,
        )
    return gaps

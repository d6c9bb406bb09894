"""Synthetic captures that read like the run they stand for.

    Run("tensorflow").fit(steps=200, input_ms=30, compute_ms=18).callback("Watch", ms=2).capture(tmp_path)

Every row goes through the real writer and reader.  Times jitter by `noise` in slow waves, as they do on a
shared machine, from a fixed seed.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fitdoctor.capture import store
from fitdoctor.model import Capture, Steps

MS = 1_000_000
SNAPSHOT_EVERY = 20
DRAIN_EVERY = 25


def _round(ms: float) -> dict[str, Any]:
    """Return what a run of the script on some backend says, with steps of so many milliseconds."""
    step = {"low": ms * 0.98e-3, "mid": ms * 1e-3, "high": ms * 1.02e-3}
    return {"step_s": step, "steps": 200, "once_s": 3.0, "learning": {"loss": 0.41, "epoch": 0, "step": 200}}


class Run:
    """Builds one capture call by call; the clock advances as the run would."""

    def __init__(
        self,
        backend: str = "tensorflow",
        *,
        noise: float = 0.01,
        cores: float = 4,
        backends_of: dict[str, list[float]] | None = None,
        **meta: Any,
    ) -> None:
        self.backend = backend
        self.noise = noise
        self.clock = 1_000 * MS
        self.tables: dict[str, list[tuple[Any, ...]]] = {}
        self._random = random.Random(7)
        self._wave = 0.0
        self._calls = 0
        self._last: dict[str, Any] = {}
        self.meta: dict[str, Any] = {
            "command": ["train.py"],
            "script": "train.py",
            "mode": "capped",
            "backend": backend,
            "versions": {"keras": "3.15.1"},
            "environment": {"cores": cores, "logical_cores": cores, "gpus": [], "bf16": False, "swap_total": 0},
            "stack": {"backend": backend, "gpus": 0, "intra_threads": int(cores)},
            "account": {"imports": 2.0, "set-up": 1.0, "compiling": 1.0, "steady steps": 5.0},
            "exit": {"code": 0, "reason": "capped"},
            "overhead": {
                "us_per_step": 10.0,
                "us_per_step_low": 7.0,
                "us_per_step_high": 13.0,
                "fraction": 0.001,
                "how": "calibrated",
            },
            **meta,
        }
        if backends_of is not None:
            self.meta["backends"] = [
                {"backend": name, "rounds": [_round(ms) for ms in times]} for name, times in backends_of.items()
            ]

    def _add(self, table: str, *row: Any) -> None:
        self.tables.setdefault(table, []).append(row)

    def _jitter(self) -> float:
        self._wave = 0.8 * self._wave + self._random.gauss(0, self.noise)
        return math.exp(self._wave)

    def fit(
        self,
        steps: int = 200,
        *,
        kind: str = "fit",
        line: int = 10,
        epochs: int = 1,
        input_ms: float = 0.0,
        compute_ms: float = 10.0,
        host_ms: float = 0.0,
        callbacks_ms: float = 0.0,
        sync_ms: float = 0.0,
        other_ms: float = 0.0,
        warmup: int = 2,
        per_row: int = 1,
        validation_ms: float = 0.0,
        between_ms: float = 0.0,
        pause_ms: float = 0.0,
        fixed_ms: float = 0.0,
        finished: bool = False,
        snapshots: bool = True,
        drains: bool = True,
        cores_busy: float | None = None,
        load: float | None = None,
        epochs_planned: int | None = None,
        site: bool = True,
        first_ms: float = 0.0,
        first_compute_ms: float = 0.0,
        disk: tuple[int, int] | None = None,
        grows: str = "callbacks",
        grows_us: float = 0.0,
        slower: float = 0.0,
        restarts: bool = False,
        samples: dict[str, Any] | None = None,
        slower_after: tuple[float, float] | None = None,
        stalls_ms: Mapping[int | str, float] | None = None,
        ends_ms: float = 0.0,
        **info: Any,
    ) -> Run:
        """Add one call; `steps` per epoch, times per optimizer step.

        `first_ms` more input in the first epoch, `first_compute_ms` more to compute; `disk` holds the bytes a step
        reads from the disk then and later; `pause_ms` before the first step of later epochs.  With every step
        `grows_us` more of the part that `grows`, from the beginning in every epoch if it `restarts`; with every step a
        machine so much `slower`.  `samples` are looks at the host: `rates` (counters and what they grow by per second),
        `gpus` (records of NVML, a list for each stretch of the call), and other values as they are.  `slower_after`:
        after this share of the steps they take so many times as long.  `stalls_ms`: so long some epochs stand still at
        their beginning; `ends_ms`: so long the call goes on after its last epoch.
        """
        self._calls += 1
        call, start = self._calls, self.clock
        stalls = {int(number): ms for number, ms in (stalls_ms or {}).items()}
        wait = compute = cpu = rows = done = 0
        next_look, read = self.clock, 0
        self.clock += int(fixed_ms * MS)
        for epoch in range(epochs):
            epoch_start = self.clock
            for step in range(0, steps, per_row):
                flags = Steps.WARMUP if epoch == 0 and step // per_row < warmup else 0
                factor = self._jitter() * per_row * (20 if flags else 1) * (1 + slower * done)
                if slower_after is not None and (epoch * steps + step) >= slower_after[0] * steps * epochs:
                    factor *= slower_after[1]
                ns = {
                    name: int(value * factor * MS)
                    for name, value in {
                        "input": input_ms + (0.0 if epoch else first_ms),
                        "compute": compute_ms + (0.0 if epoch else first_compute_ms), "host": host_ms,
                        "callbacks": callbacks_ms, "sync": sync_ms, "other": other_ms,
                    }.items()
                }  # fmt: skip
                if epoch and not step:
                    ns["input"] += int(pause_ms * MS)
                ns[grows] += int(grows_us * 1000 * (step if restarts else done))
                inside = self.backend == "tensorflow" and snapshots
                fetch = 0 if inside else ns["input"]
                run = ns["compute"] + ns["host"] + (ns["input"] if inside else 0)
                wall = sum(ns.values())
                if self.backend == "jax" and drains and rows and rows % DRAIN_EVERY == 0:
                    flags |= Steps.DRAINED
                    self._add("drained", call, done, ns["host"], ns["compute"])
                if self.backend == "jax" and drains:
                    # The launch returns early; the wait for the device shows up as sync.
                    run, ns["sync"] = ns["host"], ns["sync"] + ns["compute"]
                self._add(
                    "steps", call, epoch, done, per_row, self.clock, wall, fetch, 0, run, ns["callbacks"],
                    ns["sync"], flags,
                )  # fmt: skip
                self.clock += wall + int((stalls.get(epoch, 0.0) if not step else 0.0) * MS)
                read += disk[epoch > 0] * per_row if disk is not None else 0
                rows += 1
                done += per_row
                wait, compute = wait + ns["input"], compute + ns["compute"]
                cpu += wall - ns["input"] - ns["compute"] - ns["sync"]
                if inside and rows % SNAPSHOT_EVERY == 0:
                    # The training thread runs for all that is not spent in the graph or blocked.
                    self._add("inside", call, done, done, wait, compute, cpu)
                if (cores_busy is not None or samples is not None) and self.clock >= next_look:
                    busy = (cores_busy or 0.0) * self.clock / 1e9
                    values: dict[str, Any] = {"cpu_user": busy, "cpu_system": 0.0, "rss": 10**9, "load": load}
                    values |= self._sampled(samples or {}, (epoch * steps + step) / (steps * epochs))
                    values |= {"disk_read": read} if disk is not None else {}
                    self._add("host", self.clock, json.dumps(values))
                    next_look = self.clock + 100 * MS
            steps_end = self.clock
            self.clock += int(validation_ms * MS) + int(between_ms * MS)
            ended = finished or epoch + 1 < epochs
            self._add(
                "epochs", call, epoch, epoch_start, steps_end if ended else None, int(validation_ms * MS),
                self.clock if ended else None,
            )  # fmt: skip
        described = {
            "backend": self.backend,
            "adapter": "tf.data" if self.backend == "tensorflow" else "arrays",
            "epochs": epochs_planned or epochs,
            "steps_per_epoch": steps,
            "batch_size": 32,
            "verbose": "2",
            "metrics": [],
            "parameters": 10_000,
            "layers": {"count": 2, "kinds": {"Dense": 2}},
            "dataset": [{"op": "Batch"}, {"op": "TensorSlices"}] if self.backend == "tensorflow" else None,
            **info,
        }
        path, at = ("train.py", line) if site else (None, None)
        self.clock += int(ends_ms * MS)
        end = self.clock if finished else None
        self._add("calls", call, kind, path, at, None, None, start, end, 1, json.dumps(described))
        self._last = {"steps": steps * epochs // per_row, "epochs": epochs}
        return self

    def _sampled(self, samples: dict[str, Any], done: float) -> dict[str, Any]:
        """Return one look at the host; `done` of the call is over."""
        rates, stretches = samples.get("rates", {}), samples.get("gpus", [])
        values = {name: each for name, each in samples.items() if name not in ("rates", "gpus")}
        for name, rate in rates.items():
            group, _, inner = name.rpartition(".")
            into = values.setdefault(group, {}) if group else values
            into[inner] = rate * self.clock / 1e9
        return values | ({"gpus": stretches[int(done * len(stretches))]} if stretches else {})

    def callback(
        self,
        name: str,
        *,
        ms: float,
        hook: str = "on_train_batch_end",
        line: int = 5,
        count: int | None = None,
        builtin: bool = False,
        threaded: bool = False,
        longest_ms: float | None = None,
        saving_ms: float = 0.0,
    ) -> Run:
        """Add what a hook cost in the last call; `ms` per call of the hook."""
        times = count or self._last["epochs" if "epoch" in hook else "steps"]
        own, nested = int(ms * MS * times), int(saving_ms * MS * times)
        self._add(
            "callbacks", self._calls, name, hook, None if builtin else "train.py", line, int(builtin),
            int(threaded), times, own + nested, own, int((longest_ms or ms) * MS),
        )  # fmt: skip
        return self

    def pyfunc(
        self,
        name: str = "augment",
        *,
        wall_ms: float,
        cpu_ms: float,
        kind: str = "numpy_function",
        line: int = 3,
    ) -> Run:
        """Add a Python function in the pipeline; times per step of the last call, 32 elements each."""
        count = 32 * self._last["steps"]
        per_element = self._last["steps"] * MS
        self._add(
            "pyfuncs",
            name,
            kind,
            "train.py",
            line,
            count,
            int(wall_ms * per_element),
            int(cpu_ms * per_element),
        )
        return self

    def live(self, *nodes: dict[str, Any], looks: int = 6, every: int = 20, iterator: int = 1, since: int = 0) -> Run:
        """Add looks at the pipeline of the last call as it ran: from its end on, each node taking from the next.

        A node has a `name`, and may have `per_step`, `ms` (of its own per element), `bytes` (of one), `buffered`,
        `inputs` (places in the list) and `parameters` (name to value, most and tunable).
        """
        for look in range(1, looks + 1):
            step = look * every
            for place, node in enumerate(nodes):
                elements = int(node.get("per_step", 1) * step)
                inputs = node.get("inputs", [place + 1] if place + 1 < len(nodes) else [])
                parameters = {
                    name: {"value": value, "state": value, "max": most, "tunable": tunable}
                    for name, (value, most, tunable) in node.get("parameters", {}).items()
                }
                self._add(
                    "operators", self._calls, since + step, look * 1000 * MS, iterator, since, place, node["name"],
                    json.dumps(inputs), elements, int(node.get("ms", 0.01) * MS * elements),
                    int(node.get("bytes", 0) * elements), 0, node.get("buffered", 0), 0, json.dumps(parameters),
                    int(place == 0),
                )  # fmt: skip
        return self

    def read(self, *, ms: float, per_step: float = 1.0, line: int = 6) -> Run:
        """Add a line that reads results back in the last call; `ms` blocked per read."""
        count = int(per_step * self._last["steps"])
        self._add("reads", self._calls, "train.py", line, None, count, int(ms * MS * count))
        return self

    def trial(
        self, name: str, *, baseline_ms: float | None = None, changed_ms: float, times: int = 12, **detail: Any
    ) -> Run:
        """Add an experiment of the lab on the last call; without baseline, something measured alone."""
        base = [int(baseline_ms * MS * self._jitter()) for _ in range(times)] if baseline_ms is not None else []
        changed = [int(changed_ms * MS * self._jitter()) for _ in range(times)]
        self._add("trials", name, self._calls, json.dumps(base), json.dumps(changed), json.dumps(detail))
        return self

    def calls(
        self,
        kind: str = "predict",
        *,
        count: int = 300,
        ms: float,
        samples: int | None = 4,
        batch_size: int | None = None,
        line: int = 20,
        tracing_ms: float = 0.0,
        tried: dict[str, float] | None = None,
    ) -> Run:
        """Add short calls from one line; `tried` holds what the lab measured in their place, in ms."""
        first = 10_000 + 1_000 * len({row[3] for row in self.tables.get("calls", ())})
        for call in range(first, first + count):
            took = int(ms * MS * self._jitter() * (20 if call == first else 1))
            info = {"backend": self.backend, "total_ns": took, "samples": samples, "batch_size": batch_size}
            self._add(
                "calls", call, kind, "train.py", line, None, None, self.clock, self.clock + took, 1, json.dumps(info)
            )
            if tracing_ms:
                length = int(tracing_ms * MS)
                self._add("compiles", call, "trace", "Dataset_map", self.clock, length, None, None, "{}")
            self.clock += took
        for name, other in (tried or {}).items():
            base, changed = ([int(each * MS * self._jitter()) for _ in range(12)] for each in (ms, other))
            detail = json.dumps({"unit": "ns per call", "samples": samples})
            self._add("trials", name, first, json.dumps(base), json.dumps(changed), detail)
        return self

    def _lab_without_gain(self) -> None:
        """Add the experiments every capped run makes, where nothing else was said of them."""
        said = {row[0] for row in self.tables.get("trials", ())} | {row[0] for row in self.tables.get("gaps", ())}
        for name, *others in (
            ("steps_per_execution=8", "steps_per_execution", "a step that does nothing"),
            ("jit_compile=True", "jit_compile"),
        ):
            if self._calls and not {name, *(f"experiment: {each}" for each in others)} & said:
                self.trial(name, baseline_ms=10, changed_ms=10.5)

    def compiled(self, name: str, *, ms: float, after_ms: float = 0.0) -> Run:
        """Add a trace during the last call, so long after the clock's present time."""
        start = self.clock + int(after_ms * MS)
        self._add("compiles", self._calls, "trace", name, start, int(ms * MS), None, None, "{}")
        return self

    def traced(
        self,
        name: str = "train_step",
        *,
        times: int = 40,
        every: int = 2,
        ms: float = 200.0,
        cause: str = "value",
        argument: str = "step",
        value: str = "{}",
        numbers: list[int] | None = None,
        kind: str = "trace",
        defined: int = 3,
        line: int = 9,
        told: bool = True,
        varies: bool = False,
        operations: int = 100,
        longer_ms: float = 0.0,
    ) -> Run:
        """Add a function that is traced in the first step of the last call, and again every so many steps.

        `numbers` take turns in the argument's `value`, or it counts; a step in which it is traced takes `longer_ms`
        more.  Nobody knows where it is `defined` in line 0.
        """
        steps = self.tables["steps"]
        rows = [place for place, row in enumerate(steps) if row[0] == self._calls]
        texts = [value.format(numbers[n % len(numbers)] if numbers else n) for n in range(times + 1)]
        for n, text in enumerate(texts):
            place = rows[0] if n == 0 else rows[4 + (n - 1) * every]
            row = list(steps[place])
            row[5], row[8], row[11] = row[5] + int(longer_ms * MS), row[8] + int(longer_ms * MS), Steps.WARMUP
            steps[place] = tuple(row)
            again = n > 0 and cause != "rebuilt"
            changed = [{"argument": argument, "was": texts[n - 1], "now": text, "kind": cause}] if again else []
            known = {"first": not again, "changed": changed, "varies": varies, "line": ["train.py", line]}
            detail = {**known, "operations": operations} if told else {}
            at = ("train.py", defined) if defined else (None, None)
            self._add("compiles", self._calls, kind, name, row[4] + 1, int(ms * MS), *at, json.dumps(detail))
        return self

    def source(self, text: str | None, path: str = "train.py") -> Run:
        """Add a file of the user's own."""
        digest = hashlib.sha256((text or "").encode("utf-8", "surrogateescape")).hexdigest()
        self._add("sources", *store.source_row(path, digest, text))
        return self

    def gap(self, what: str, reason: str, remedy: str) -> Run:
        """Add something a probe could not see."""
        self._add("gaps", what, reason, remedy)
        return self

    def capture(self, folder: Path) -> Capture:
        """Write the file and read it back."""
        if self.meta.get("mode") == "capped":
            self._lab_without_gain()
        path = folder / f"run-{len(list(folder.iterdir()))}{store.SUFFIX}"
        writer = store.Writer(path)
        writer.meta(self.meta)
        writer.write(self.tables)
        writer.seal()
        return store.read(path)

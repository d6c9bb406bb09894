"""The nouns of fitdoctor: read this first.

Everything that passes between two stages is a frozen dataclass defined here.  The stages are

    probes → capture → lab → facts → rules → findings → fixes → proof → report

and a stage imports this module and nothing from a later stage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from fitdoctor.edits import Edit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

CAPTURE_SCHEMA = "fitdoctor.capture/1"
REPORT_SCHEMA = "fitdoctor.report/1"
CHECK_SCHEMA = "fitdoctor.check/1"

Safety = Literal["same", "may change", "manual"]
FAMILIES = ("input", "framework", "device", "model", "distributed", "convergence")

PHASES = (
    "imports",
    "set-up",
    "compiling",
    "steady steps",
    "validation",
    "between epochs",
    "callbacks",
    "saving",
    "rest",
)
"""Every second of a run belongs to exactly one of these."""

PARTS = ("input", "transfer", "compute", "host", "callbacks", "sync", "other")
"""Every microsecond of a steady step belongs to exactly one of these."""


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """A measured or predicted number: the middle, and the range that holds the truth 19 times in 20."""

    low: float
    mid: float
    high: float

    def __post_init__(self) -> None:
        """Refuse an interval that is not one."""
        if not (self.low <= self.mid <= self.high) or any(map(math.isnan, (self.low, self.mid, self.high))):
            raise ValueError(f"an interval needs low <= mid <= high, got {self.low}, {self.mid}, {self.high}")

    @classmethod
    def exact(cls, value: float) -> Interval:
        """Return a number known without error."""
        return cls(value, value, value)

    @classmethod
    def around(cls, values: Iterable[float]) -> Interval:
        """Return the smallest interval that holds three candidate values, the middle one in the middle."""
        low, mid, high = sorted(values)
        return cls(low, mid, high)

    @property
    def ends(self) -> tuple[float, float, float]:
        """Low, middle and high."""
        return self.low, self.mid, self.high

    def scale(self, factor: float) -> Interval:
        """Multiply by a non-negative constant."""
        return Interval(self.low * factor, self.mid * factor, self.high * factor)

    def clip(self, low: float, high: float) -> Interval:
        """Force all three numbers into a range."""
        return Interval(*(min(max(v, low), high) for v in (self.low, self.mid, self.high)))


@dataclass(frozen=True, slots=True)
class Site:
    """Where the user would edit."""

    path: str
    line: int
    end_line: int | None = None
    symbol: str | None = None

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that could not be observed: what, why, and what the user can do about it."""

    what: str
    reason: str
    remedy: str

    DOES_NOT_APPLY = "none: it does not apply here"
    """The remedy of a question that does not arise on this run."""
    LONGER = "let it run longer: --steps and --budget"
    """The remedy where too little was seen."""


# --- the capture: raw signals, as the probes recorded them -------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """One `fit`, `evaluate`, `predict`, or one hand-written loop."""

    id: int
    kind: str
    """fit, evaluate, predict, train_on_batch, test_on_batch, predict_on_batch or loop"""
    site: Site | None
    parent: int | None
    start_ns: int
    end_ns: int | None
    """None while it runs, or if the process died inside."""
    count: int
    """How many calls from this site this row stands for (more than one only for very many short calls)."""
    info: Mapping[str, Any]
    """adapter, backend, epochs, steps_per_epoch, batch_size, steps_per_execution, run_eagerly, jit_compile,
    async_callbacks, optimizer, parameters, workers, dataset (list of operators), ..."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one call, as columns of equal length.

    `wall` runs from the start of one step to the start of the next.  `fetch`, `transfer`, `run`, `callbacks` and
    `sync` are what the training thread spent in them; the rest of `wall` is the loop's own Python.
    """

    epoch: Ints
    step: Ints
    count: Ints
    """Optimizer steps in this row: `steps_per_execution`, or more where a very long run was thinned out."""
    start_ns: Ints
    wall_ns: Ints
    fetch_ns: Ints
    """Blocked in Python asking for the next batch (JAX, torch, hand-written loops, eager TensorFlow)."""
    transfer_ns: Ints
    run_ns: Ints
    """Inside the train function as the training thread sees it."""
    callbacks_ns: Ints
    sync_ns: Ints
    """Blocked reading results back (logs to Python numbers, `float(loss)`)."""
    flags: Ints

    WARMUP = 1
    """Traced, compiled or first of its kind: not a steady step."""
    DRAINED = 2
    """The probe waited for the device after this step."""
    CUT = 4
    """No step of its own (`count` is 0): waiting for work that the rows before it had launched."""
    RESTED = 8
    """Counted only: `wall` is right, what the step went to was not looked at (in long runs of short steps)."""


@dataclass(frozen=True, slots=True)
class Inside:
    """TensorFlow only: cumulative clocks kept inside the compiled train function, read now and then.

    Time the graph waited for `iterator.get_next()` and from then to the last op of the step.  In a long run they tick
    in bursts: between two readings that belong together `count` grows as much as `step`.
    """

    step: Ints
    """The step that came next when the clocks were read."""
    count: Ints
    """Steps the clocks had seen."""
    wait_ns: Ints
    compute_ns: Ints
    cpu_ns: Ints
    """CPU time of the training thread: what it lacks of the wall clock outside of the graph it spent blocked."""


@dataclass(frozen=True, slots=True)
class Drained:
    """Sampled steps after which the probe waited for the device: asynchronous backends only."""

    step: Ints
    launch_ns: Ints
    """Until the train function returned."""
    compute_ns: Ints
    """Until the device had finished, counted from the start of the launch."""


@dataclass(frozen=True, slots=True)
class CallbackTime:
    """What one callback's hook cost in one call."""

    call: int
    name: str
    hook: str
    site: Site | None
    builtin: bool
    """One of Keras's own."""
    threaded: bool
    """Ran on Keras's dispatch thread, beside the step, not inside it."""
    count: int
    total_ns: int
    """Without tracing, imports and an epoch's validation inside of it, which are counted as what they are."""
    self_ns: int
    """Of it, without saving."""
    max_ns: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of one `fit`."""

    call: int
    epoch: int
    start_ns: int
    steps_end_ns: int | None
    """When the last step's hooks had returned."""
    validation_ns: int
    end_ns: int | None
    """When `on_epoch_end` had returned."""


@dataclass(frozen=True, slots=True)
class Compile:
    """One trace or compilation."""

    call: int | None
    kind: str
    """trace, lower, compile"""
    name: str
    start_ns: int
    duration_ns: int
    site: Site | None
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PyFunc:
    """A Python function that runs inside a tf.data pipeline (or feeds it)."""

    name: str
    kind: str
    """py_function, numpy_function or generator"""
    site: Site | None
    count: int
    wall_ns: int
    cpu_ns: int
    """CPU time of the thread that ran it: well below `wall_ns` when it waits (for I/O or for the GIL)."""


@dataclass(frozen=True, slots=True)
class LiveOperator:
    """One operator of a running tf.data pipeline at one moment, as TensorFlow's own model of it says.

    Counters only grow while the iterator lives; names and structure are those of what runs, not of what was written.
    """

    call: int
    step: int
    """Steps of the call that were done at that moment."""
    t_ns: int
    iterator: int
    """Numbers the iterators of a process: each epoch has one of its own."""
    since: int
    """Steps of the call that were done when its iterator was made."""
    node: int
    name: str
    inputs: tuple[int, ...]
    elements: int
    processing_ns: int
    """Of its own, summed over the threads that did it: wall time, so waiting counts."""
    produced: int
    consumed: int
    """Bytes."""
    buffered: int
    buffered_bytes: int
    parameters: Mapping[str, Mapping[str, Any]]
    """parallelism, buffer_size, ...: value, min, max, tunable (left to AUTOTUNE)."""
    root: bool
    """It hands its elements to the training."""


@dataclass(frozen=True, slots=True)
class Read:
    """One line of the user's own that reads results back in a hand-written loop."""

    call: int
    site: Site
    count: int
    total_ns: int
    """Blocked meanwhile: part of the steps' `sync`."""


@dataclass(frozen=True, slots=True)
class HostSample:
    """One look at the process and the machine, about once a second."""

    t_ns: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the user's own that took part in the run."""

    path: str
    sha256: str
    text: str | None
    """None where the user asked for redaction."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One experiment of the lab: what was changed, and the step times with and without the change."""

    name: str
    call: int
    baseline_ns: tuple[int, ...]
    changed_ns: tuple[int, ...]
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Capture:
    """Everything one run left behind; no training data."""

    path: str
    meta: Mapping[str, Any]
    """schema, fitdoctor, command, mode, started, environment, versions, account, exit, overhead, cap, ..."""
    calls: tuple[Call, ...]
    steps: Mapping[int, Steps]
    inside: Mapping[int, Inside]
    drained: Mapping[int, Drained]
    callbacks: tuple[CallbackTime, ...]
    epochs: tuple[Epoch, ...]
    compiles: tuple[Compile, ...]
    pyfuncs: tuple[PyFunc, ...]
    host: tuple[HostSample, ...]
    trials: tuple[Trial, ...]
    sources: tuple[Source, ...]
    gaps: tuple[Gap, ...]
    reads: tuple[Read, ...] = ()
    operators: tuple[LiveOperator, ...] = ()

    @property
    def account(self) -> Mapping[str, float]:
        """Seconds per phase, from process start to end."""
        account: Mapping[str, float] = self.meta.get("account", {})
        return account


# --- outcomes -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """What a fix would do to the step model, so that several fixes can be combined instead of summed.

    `part` is one of PARTS, or "work" (all of the step but its input and its callbacks: what the lab runs on one
    batch), or "step" (the same with its input), or "epoch callbacks", "validation", "between epochs", "pause",
    "saving", "short calls", "compiling again". `remaining` is the share of that part which stays after the fix.
    `overlap` means that input and compute no longer take turns.
    """

    part: str
    remaining: Interval = field(default_factory=lambda: Interval.exact(0.0))
    overlap: bool = False
    once: Interval = field(default_factory=lambda: Interval.exact(0.0))
    """Seconds that the fix itself costs, once: compiling what was not compiled."""
    also: tuple[Change, ...] = ()
    """What the same fix does elsewhere."""
    rehearsed: bool = False
    """The lab trained with it: of the "step" or "between epochs" that much was seen to stay.  Of several such changes
    only the best counts, since they were not rehearsed together."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a cause costs this very run, as a fraction of the whole training's time."""

    saving: Interval
    because: str
    """One sentence with the numbers."""
    site: Site | None = None
    change: Change | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    noise: float | None = None
    """What the saving must exceed to be told from nothing, where the steps of the run differ for this very cause."""


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do about it."""

    title: str
    safety: Safety
    diff: str | None = None
    """What the edits make of the source, as `fixes/` renders it; None: by hand."""
    edits: tuple[Edit, ...] = ()
    """What a rule is sure of; empty where it takes a person to decide."""
    apart: tuple[str, ...] = ()
    """Rules whose fixes mean something else beside this one: they are not written together."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A root cause with a measured cost."""

    rule: str
    family: str
    site: Site | None
    cost: Cost
    fix: Fix | None


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A pattern in the source whose cost nobody has measured, or a defect that was seen and costs no time."""

    rule: str
    family: str
    site: Site
    why: str


@dataclass(frozen=True, slots=True)
class Passed:
    """Looked at, and it costs nothing worth having."""

    rule: str
    because: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Could not be judged: the evidence is missing."""

    rule: str
    gap: Gap


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The question does not arise on this run."""

    rule: str
    because: str


Outcome = Finding | Suspicion | Passed | Unknown | NotApplicable


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How fast this job could get if every finding were fixed, and what would then limit it."""

    speedup: Interval
    bound: str


Verdict = Literal["PROVED", "NO_EFFECT", "REFUTED", "INCONCLUSIVE"]


@dataclass(frozen=True, slots=True)
class Proof:
    """Two versions of a training against each other, in fresh processes, in turns."""

    schedule: tuple[str, ...]
    """Which version ran when: "before" or "after"."""
    before_s: Interval
    after_s: Interval
    """Seconds of the whole training, as the user would run it."""
    before_ms: Interval
    after_ms: Interval
    """Milliseconds of a steady step."""
    speedup: Interval
    """Of the whole training: before over after, run beside run."""
    learning: str
    """identical, within rounding, alike, different, or not compared"""
    losses: tuple[tuple[float, ...], tuple[float, ...]]
    """What both had come to, run by run."""
    verdict: Verdict
    because: str
    predicted: Interval | None = None
    rules: tuple[str, ...] = ()
    runs_s: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    """Seconds of the whole training, run by run: of both versions, pair beside pair."""


@dataclass(frozen=True, slots=True)
class Report:
    """The whole answer: rendered, never computed, by `report/`."""

    headline: str
    run: Mapping[str, Any]
    breakdown: Mapping[str, float]
    phases: Mapping[str, float]
    """Seconds of the observed run per phase."""
    ceiling: Ceiling | None
    findings: tuple[Finding, ...]
    suspicions: tuple[Suspicion, ...]
    passed: tuple[Passed, ...]
    unknown: tuple[Unknown, ...]
    not_applicable: tuple[NotApplicable, ...]
    proofs: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    """What the tool says about its own measurement."""
    next_command: str = ""
    schema: str = REPORT_SCHEMA
    input: Mapping[str, Any] | None = None
    """The input pipeline, stage by stage, as data (`facts/input_view.py`); None where nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A suspicion of `check`, and what is needed to show it and to know it again."""

    suspicion: Suspicion
    cell: int | None
    """In a notebook: which cell, counted from 1; the site's lines are those of the cell."""
    lines: Sequence[str]
    """All lines of its file, or of its cell."""
    tell: str
    """The command that would tell whether it costs anything."""
    fingerprint: str
    """Stays when lines above it come and go."""
    fix: Fix | None = None
    """An edit that the source alone shows to be right; in a notebook it is not made."""

    @property
    def is_fixable(self) -> bool:
        """Whether `check --fix` would mend it."""
        return self.fix is not None and self.cell is None

    @property
    def where(self) -> str:
        """Its place, as a person would look for it."""
        site = self.suspicion.site
        return str(site) if self.cell is None else f"{site.path}:cell {self.cell}:{site.line}"


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A file, or a cell of a notebook, that could not be looked at."""

    path: str
    line: int | None
    reason: str
    cell: int | None = None

    def __str__(self) -> str:
        places = [self.path, f"cell {self.cell}" if self.cell else "", str(self.line or "")]
        return f"{':'.join(filter(None, places))}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Checked:
    """What `check` found in the source, without running anything."""

    files: int
    spots: tuple[Spot, ...]
    unchecked: tuple[Unchecked, ...] = ()
    warnings: tuple[str, ...] = ()
    """Comments and settings that mean nothing."""
    suppressed: int = 0
    """Suspicions that a comment or a setting silences."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """What is wrong, for every rule that was asked."""
    fixed: tuple[Spot, ...] = ()
    """What `--fix` has mended; it is not among the spots any more."""
    schema: str = CHECK_SCHEMA


def ranked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Order findings by what fixing them would save, largest first."""
    return tuple(sorted(findings, key=lambda f: (-f.cost.saving.mid, f.rule, str(f.site))))

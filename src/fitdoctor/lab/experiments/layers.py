"""Every layer of the model alone, forward and backward, in turns with the whole step; and what could stand instead."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab import layer_calls, layer_runs
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.beside import quiet
from fitdoctor.lab.calls import timed
from fitdoctor.lab.job import BARE, BLOCK_SECONDS, Job, wait_for
from fitdoctor.lab.layer_alternatives import Alternative, alternatives
from fitdoctor.lab.layer_calls import LayerCall
from fitdoctor.lab.layer_work import flops
from fitdoctor.lab.snapshot import free_memory
from fitdoctor.model import Gap
from fitdoctor.probes import model_layers
from fitdoctor.probes.install import code_site

NAME = "the layers one by one"
OPTIMIZER = "update without tables"
MOST_SECONDS = 15.0
"""For compiling the layers; those that no time is left for are told as not measured."""
FELT = 0.02
"""Something cheaper in the place of a layer is tried where the layer takes more than this share of the step."""
_SHORT_NS = 2e6
"""Shorter steps are launching more than layers."""
_PLAUSIBLE = 6.0
"""Worth of it where a layer hands its numbers to Python, or is far wider than all others."""
_QUESTION = 0.7
"""Worth of it where something else stands out: more than that of a setting, as it may take most of the step."""
_STANDS_OUT = ("flattened", "embeddings", "recurrent", "activations")
_FORWARD = 0.5
"""At most this share of what compiling a step takes goes into its forward pass."""
_NAMED = 200
_MOST_TIMES = 50
_COPIES = 4
"""Weights, their gradients and the optimizer's own values, beside the model."""


def worth(seen: Seen) -> float:
    """Weigh steps that compute, in models in which something stands out."""
    busy = seen.shares["run"] + seen.shares["sync"]
    if seen.info.get("run_eagerly") or seen.step_ns < _SHORT_NS or busy < 0.5:
        return 0.0
    outline = seen.info.get("layers") or {}
    if _on_gpu(seen) and outline.get("misaligned"):
        return _PLAUSIBLE
    if outline.get("host") or outline.get("widest"):
        return _PLAUSIBLE
    return _QUESTION * busy if any(outline.get(each) for each in _STANDS_OUT) else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison | Gap]:
    """Time the layers in turns with the step, then what could stand in the place of those that stand out."""
    if job.backend == "jax" and seen.compile_s * _FORWARD > MOST_SECONDS:
        # Which layers are called with what is seen in a forward pass, which JAX compiles as a whole.
        raise CannotRun(f"compiling it took {seen.compile_s:.0f} s", do="time the layers by hand")
    layers = Layers(job)
    layers.compile(min(time.monotonic() + MOST_SECONDS, (time.monotonic() + job.until) / 2))
    yield Comparison("layers", layers.round, lambda: job.block(BARE), late=layers.detail)
    if layers.tables:
        detail = {"unit": "ns per update", "tables": layers.tables}
        yield Comparison(OPTIMIZER, timed(layers.updating(tables=False)), timed(layers.updating()), detail)
    for other in alternatives(layers.calls, model_layers.outline(job.model), gpu=_on_gpu(seen)):
        yield from _tried(layers, other)


def _on_gpu(seen: Seen) -> bool:
    return "gpu" in (seen.info.get("weights_on") or ())


def _block(layers: Layers, other: Alternative, baseline: list[layer_runs.Once]) -> Callable[[], float]:
    """Return what runs a block of the layers as they are; looked at, where Python may be at work in them."""

    def all_of_them() -> None:
        for once in baseline:
            wait_for(layers.backend, once())

    run = timed(all_of_them)

    def block() -> float:
        with quiet():
            return other.lines.watch(run) if other.lines is not None else run()

    return block


def _tried(layers: Layers, other: Alternative) -> Iterator[Comparison | Gap]:
    units = [layers.unit(call) for call in other.of]
    detail = {"unit": "ns per call", "layer": other.name, "count": units[other.about].count, **other.detail}
    try:
        baseline = [unit.once for unit in units if unit.once is not None]
        if len(baseline) < len(units) or time.monotonic() > layers.until:
            raise CannotRun("no time was left for it", do="give it more time with --budget")
        changed = layers.replay(other.make())
    except CannotRun as error:
        yield Gap(f"experiment: {other.trial}", error.problem, error.do)
        return
    yield Comparison(
        other.trial,
        timed(lambda: wait_for(layers.backend, changed())),
        _block(layers, other, baseline),
        detail,
        late=other.lines.detail if other.lines is not None else None,
        pointless=functools.partial(layers.too_small, units),
    )


@dataclass(slots=True, eq=False)
class Unit:
    """Layers that do the same work on inputs of the same shape: one of them is timed for all."""

    call: LayerCall
    names: list[str]
    once: layer_runs.Once | None = None
    """None: it could not be run alone, or there was no time for it."""
    why: str = "no time was left for it"
    times: int = 1
    took: list[float] = field(default_factory=list)
    """Nanoseconds of one call, round by round."""

    @property
    def count(self) -> int:
        """How often a step makes the call."""
        return len(self.names)


class Layers:
    """The layers of one model, timed in rounds."""

    def __init__(self, job: Job) -> None:
        if job.backend == "torch" and job.own.jit_compile:
            raise CannotRun("torch.compile makes one piece of all layers", do="try it without jit_compile")
        if job.backend == "jax" and not job.own.jit_compile:
            raise CannotRun("the step is not compiled: eager-step judges that")
        if _COPIES * 4 * int(job.model.count_params()) > free_memory():
            raise CannotRun("its weights do not fit into memory again", do="run it on a machine with more memory")
        self.backend = job.backend
        self._job = job
        self._xla = bool(job.own.jit_compile)
        self.calls = layer_calls.record(job)
        self._launch_ns = layer_runs.launch_ns(job.backend)
        self.until = float("inf")
        """When, on the monotonic clock, nothing more is compiled."""
        units: dict[str, Unit] = {}
        for call in self.calls:
            unit = units.setdefault(layer_calls.likeness(call), Unit(call, []))
            unit.names.append(call.name)
        self._units = units
        self._update: layer_runs.Once | None = None
        self._updates: list[float] = []
        self.tables = self._tables()

    # --- making -----------------------------------------------------------------------------------

    def unit(self, call: LayerCall) -> Unit:
        """Return the unit that a call belongs to."""
        return self._units[layer_calls.likeness(call)]

    def replay(self, call: LayerCall) -> layer_runs.Once:
        """Compile a call and make it once; raises CannotRun where it cannot be made alone."""
        try:
            once = layer_runs.replay(call, self.backend, xla=self._xla)
            with quiet():
                wait_for(self.backend, once())
        except Exception as error:
            raise CannotRun(f"{call.kind} does not run alone: {type(error).__name__}", do="time it by hand") from error
        return once

    def compile(self, until: float) -> None:
        """Compile the optimizer's update and the layers, those with the most work first, until the time is over."""
        self.until = until
        self._update = self.updating()
        self._update()
        every = sorted(self._units.values(), key=lambda unit: -_weight(unit))
        for unit in every:
            if time.monotonic() > until:
                break
            try:
                unit.once = self.replay(unit.call)
            except CannotRun as error:
                unit.why = error.problem
        measured = [unit for unit in every if unit.once is not None]
        if not measured:
            raise CannotRun(every[0].why, do="give it more time with --budget")
        for unit in measured:
            assert unit.once is not None
            once = layer_runs.ns_of(unit.once, self.backend, 1)
            unit.times = max(1, min(_MOST_TIMES, int(BLOCK_SECONDS * 1e9 / len(measured) / once)))

    def updating(self, *, tables: bool = True) -> layer_runs.Once:
        """Return what makes the optimizer's update of all variables, or of all but the embedding tables."""
        if tables and self._update is not None:
            return self._update
        used = {id(call.layer.embeddings): call.args[0] for call in self._embeddings()}
        chosen = [each for each in self._job.model.trainable_variables if tables or id(each) not in used]
        if not chosen:
            return lambda: None
        once = layer_runs.update(self._job.model, chosen, self.backend, xla=self._xla, rows=used)
        return lambda: wait_for(self.backend, once())

    def _embeddings(self) -> list[LayerCall]:
        return [call for call in self.calls if call.kind == "Embedding" and call.layer.trainable_variables]

    def _tables(self) -> list[dict[str, Any]]:
        """Tell how many rows of the embedding tables a batch uses."""
        import numpy as np
        from keras import ops

        return [
            {
                "name": call.name,
                "rows": int(call.layer.input_dim),
                "used": int(np.unique(ops.convert_to_numpy(call.args[0])).size),
                "params": model_layers.params(call.layer),
            }
            for call in self._embeddings()
        ]

    # --- measuring --------------------------------------------------------------------------------

    def round(self) -> float:
        """Time every layer and the update; return the nanoseconds that all of them take in a step."""
        total = 0.0
        for unit in self._units.values():
            if unit.once is not None:
                with quiet():
                    took = layer_runs.ns_of(unit.once, self.backend, unit.times) - self._launch_ns
                unit.took.append(max(0.0, took))
                total += unit.took[-1] * unit.count
        assert self._update is not None
        self._updates.append(max(0.0, layer_runs.ns_of(self._update, self.backend, 1) - self._launch_ns))
        return total + self._updates[-1]

    def too_small(self, units: list[Unit]) -> bool:
        """Tell whether some layers take too little of all to be worth another trial."""
        whole = sum(statistics.median(unit.took) * unit.count for unit in self._units.values() if unit.took)
        return sum(statistics.median(unit.took) * unit.count for unit in units if unit.took) < FELT * whole

    def detail(self) -> dict[str, Any]:
        """Return what is known of each layer."""
        return {
            "layers": [_told(unit) for unit in self._units.values()],
            "optimizer_ns": self._updates,
            "launch_ns": self._launch_ns,
        }


def _weight(unit: Unit) -> float:
    """Guess how much a layer takes: what it calculates, else what it hands on."""
    return unit.count * max(
        float(flops(layer_calls.shapes(unit.call)) or 0), float(layer_calls.size_of(unit.call.outputs))
    )


def _told(unit: Unit) -> dict[str, Any]:
    call = unit.call
    site = code_site(type(call.layer).call)
    return {
        "name": call.name,
        "kind": call.kind,
        "count": unit.count,
        "names": unit.names[:_NAMED],
        "params": model_layers.params(call.layer),
        "bytes": layer_calls.size_of(call.outputs),
        "flops": flops(layer_calls.shapes(call)),
        "ns": unit.took,
        "why": "" if unit.once is not None else unit.why,
        "site": [site.path, site.line] if site is not None else None,
    }

"""How batches come to be: the adapter, the operators of a tf.data pipeline, the Python inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Gap, PyFunc, Site

_PASSIVE = frozenset(
    {
        "Options", "Take", "Skip", "Repeat", "Shuffle", "Batch", "PaddedBatch", "Cache", "Enumerate", "Shard",
        "Unbatch", "Rebatch", "IgnoreErrors", "MaxIntraOpParallelism", "PrivateThreadPool", "Concatenate",
    }
)  # fmt: skip
"""Operators that hand on what lies below them: the work is further down."""

_ASYNCHRONOUS = frozenset({"ParallelMap", "ParallelInterleave", "ParallelBatch", "MapAndBatch", "ParallelFilter"})
"""Operators that work ahead on threads of their own, whatever the options say."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a tf.data pipeline, as the script wrote it."""

    op: str
    python: bool = False
    stateful: bool = False
    parallel: int | None = None
    buffer: int | None = None


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """Python that runs inside the pipeline, per element and per step."""

    name: str
    kind: str
    site: Site | None
    count: int
    wall_each: float
    cpu_each: float
    wall_step: float
    cpu_step: float


@dataclass(frozen=True, slots=True)
class InputPipeline:
    """The input of the leading training."""

    adapter: str
    operators: tuple[Operator, ...] | None
    """Outermost first; None where it is not tf.data or could not be looked into."""
    options: Mapping[str, Any]
    functions: tuple[PythonFunction, ...]
    ahead: bool = False
    """Something prepares the next batch while the step runs, by the framework's own rules."""

    def works_ahead(self) -> str | None:
        """Name what prepares the next batch while the step computes; None where nothing does."""
        assert self.operators is not None
        if self.options.get("op_determinism") and any(each.stateful or each.python for each in self.operators):
            return None
        if self._injects():
            return "the prefetch TensorFlow adds by itself"
        fused = False
        for operator, below in zip(self.operators, [*self.operators[1:], None], strict=True):
            if operator.op == "Prefetch" and operator.buffer != 0:
                return "prefetch"
            if operator.op in _ASYNCHRONOUS or (operator.parallel or 0) != 0:
                return operator.op
            fused = operator.op == "Batch" and below is not None and below.op == "Map"
            if fused and self._optimises("map_and_batch_fusion"):
                return "map and batch, which TensorFlow fuses and runs ahead"
            if operator.op == "Map" and not operator.stateful and not operator.python and self._parallelises():
                return "a map that TensorFlow makes parallel by itself"
            if operator.op not in _PASSIVE and operator.op != "Prefetch":
                return None
        return None

    def _on(self, name: str) -> bool:
        return self.options.get(name) is not False

    def _optimises(self, name: str) -> bool:
        """An optimisation that is on unless it, or all of them, are turned off."""
        said = self.options.get(name)
        return bool(said) if said is not None else self._on("apply_default_optimizations")

    def _parallelises(self) -> bool:
        return self._on("autotune") and self._optimises("map_parallelization")

    def _injects(self) -> bool:
        """Measured on TensorFlow 2.21: see the page of missing-prefetch."""
        outermost = next((each for each in self.operators or () if each.op != "Options"), None)
        if outermost is not None and outermost.op == "Prefetch":
            return False
        return self._on("autotune") and self._optimises("inject_prefetch")


def establish(capture: Capture, training: Training) -> InputPipeline:
    """Read the adapter and its operators from the leading call."""
    adapter = training.info.get("adapter")
    if adapter is None:
        raise MissingEvidence(
            Gap(
                "the kind of input",
                "the call did not show where its batches come from",
                "pass the data to fit",
            )
        )
    listed = training.info.get("dataset")
    found = InputPipeline(
        adapter=str(adapter),
        operators=tuple(_operator(each) for each in listed) if listed else None,
        options=training.info.get("dataset_options") or {},
        functions=tuple(_function(each, capture, training) for each in capture.pyfuncs if each.count),
    )
    return replace(found, ahead=_ahead(found, training))


def _ahead(found: InputPipeline, training: Training) -> bool:
    if found.operators is not None and found.adapter == "tf.data":
        return found.works_ahead() is not None
    workers = int(training.info.get("workers") or 0)
    if found.adapter in ("DataLoader", "PyDataset"):
        return workers > (found.adapter == "PyDataset")
    # On TensorFlow Keras wraps all other kinds of input into a tf.data pipeline that prefetches.
    return training.backend == "tensorflow" and training.kind == "fit" and found.adapter != "tf.data"


def _operator(each: Mapping[str, Any]) -> Operator:
    parallel = each.get("parallel")
    return Operator(
        op=str(each["op"]),
        python=bool(each.get("python")),
        stateful=bool(each.get("stateful")),
        parallel=int(parallel) if parallel is not None else None,
        buffer=each.get("buffer"),
    )


def _function(each: PyFunc, capture: Capture, training: Training) -> PythonFunction:
    steps = max(1, sum(int(found.count.sum()) for found in capture.steps.values()))
    per_step = each.count / steps
    batch = training.info.get("batch_size")
    if batch:
        # More elements than a batch holds were prepared for later steps or for validation.
        per_step = min(per_step, float(batch)) if per_step > 1 else per_step
    return PythonFunction(
        name=each.name,
        kind=each.kind,
        site=each.site,
        count=each.count,
        wall_each=each.wall_ns / each.count / 1e9,
        cpu_each=each.cpu_ns / each.count / 1e9,
        wall_step=each.wall_ns / each.count / 1e9 * per_step,
        cpu_step=each.cpu_ns / each.count / 1e9 * per_step,
    )

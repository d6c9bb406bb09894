"""How batches come to be: the adapter, the operators of a tf.data pipeline, the Python inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import stage_costs
from fitdoctor.facts.live_pipeline import Node, live
from fitdoctor.facts.loader_setup import LoaderSetup, describe
from fitdoctor.facts.matching import match
from fitdoctor.facts.stage_costs import StageCost
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials, alone
from fitdoctor.model import Capture, Gap, PyFunc, Site

_PASSIVE = frozenset(
    {
        "Options", "Take", "Skip", "Repeat", "Shuffle", "Batch", "PaddedBatch", "Cache", "Enumerate", "Shard",
        "Unbatch", "Rebatch", "IgnoreErrors", "MaxIntraOpParallelism", "PrivateThreadPool", "Concatenate",
    }
)  # fmt: skip
"""Operators that hand on what lies below them: the work is further down."""

_MOVES = frozenset(
    {
        "Tensor", "TensorSlice", "Range", "Options", "Take", "Skip", "Repeat", "Shuffle", "ShuffleAndRepeat", "Batch",
        "ParallelBatch", "Prefetch", "Zip", "Shard", "Rebatch", "Model",
    }
)  # fmt: skip
"""Operators that take from memory, or hand on what lies below them as it is."""

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
    site: Site | None = None
    """Where the user built it."""
    function: Site | None = None
    """Where the user wrote the function it calls."""
    reads: bool = False
    """Its function reads a file by its name."""
    inputs: tuple[int, ...] = ()
    """Places of the operators it takes its elements from."""
    random: str | None = None
    """How it draws random numbers: seeded, unseeded, stateless, generator; None: it does not."""
    elements: int | None = None
    """How many it gives in an epoch; None: endless, or not known without going through them."""
    endless: bool = False
    batch: int | None = None
    cache: str | None = None
    """Where a cache keeps its elements: memory or file."""
    bytes_each: float | None = None
    """Of one element."""
    per_step: float | None = None
    """Elements of it that make a step."""
    cost: StageCost | None = None
    """As the lab measured it, pulled alone."""
    runs_as: Node | None = None
    """What TensorFlow ran in its place; several operators share one where they were fused."""
    decodes: bool = False
    """Its function decodes pictures."""
    pads: bool = False
    """Its function pads sequences."""

    @property
    def cache_bytes(self) -> float | None:
        """Return the memory that a cache of its elements would need, where both size and number are known."""
        return None if self.bytes_each is None or self.elements is None else self.bytes_each * self.elements


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
    added: tuple[Node, ...] = ()
    """Operators that ran and that the user did not write."""
    loader: LoaderSetup | None = None
    """Any other kind of input than tf.data; None where a hand-written loop does not tell."""

    @property
    def only_moves(self) -> bool:
        """Elements come from memory and nothing is done to them: there is nothing to read, to compute or to keep."""
        return all(each.op in _MOVES for each in self.operators or ())

    @property
    def maps(self) -> bool:
        """Something is done to its elements, one by one or batch by batch."""
        return any(
            each.op in ("Map", "ParallelMap", "Interleave", "ParallelInterleave") for each in self.operators or ()
        )

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

    def made_parallel(self, operator: Operator) -> bool:
        """Tell whether TensorFlow calls a map several times at once though the script does not ask for it."""
        return not operator.stateful and not operator.python and self._parallelises()

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


def establish(capture: Capture, training: Training, trials: Trials | None) -> InputPipeline:
    """Read the adapter and its operators from the leading call, what ran from the looks at it, costs from the lab."""
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
    nodes = live(capture.operators, training.call_ids)
    operators = tuple(_operators(listed)) if listed else ()
    matched = match(operators, nodes)
    operators = tuple(_ran(each, matched.runs_as.get(place)) for place, each in enumerate(operators))
    found = InputPipeline(
        adapter=str(adapter),
        operators=_costed(operators, trials) if listed else None,
        options=training.info.get("dataset_options") or {},
        functions=tuple(_function(each, capture, training) for each in capture.pyfuncs if each.count),
        added=matched.added,
    )
    ahead = _ahead(found, training)
    if listed or adapter in ("tf.data", "loop"):
        return replace(found, ahead=ahead)
    measured = alone(trials, "loader alone") if trials is not None else None
    return replace(found, ahead=ahead, loader=describe(training, measured, ahead=ahead))


def _ran(operator: Operator, node: Node | None) -> Operator:
    """Add what was seen of it; of elements whose size is not fixed, the average is known from the run."""
    if node is None:
        return operator
    shared = operator.op in ("Map", "ParallelMap") and "And" in node.name
    size = operator.bytes_each if operator.bytes_each is not None or shared else node.bytes_each
    return replace(operator, runs_as=node, bytes_each=size)


def _costed(operators: tuple[Operator, ...], trials: Trials | None) -> tuple[Operator, ...]:
    # Of operators that ran as one only the last one's elements were counted.
    shared = {below for each in operators for below in each.inputs if operators[below].runs_as is each.runs_as}
    seen = {
        place: each.runs_as.per_step
        for place, each in enumerate(operators)
        if each.runs_as is not None and place not in shared
    }
    steps = stage_costs.per_step(operators, seen)
    costs = stage_costs.costs(operators, trials, steps) if trials is not None else {}
    return tuple(
        replace(each, per_step=steps.get(place, seen.get(place)), cost=costs.get(place))
        for place, each in enumerate(operators)
    )


def _ahead(found: InputPipeline, training: Training) -> bool:
    if found.operators is not None and found.adapter == "tf.data":
        return found.works_ahead() is not None
    workers = int(training.info.get("workers") or 0)
    if found.adapter in ("DataLoader", "PyDataset"):
        return workers > (found.adapter == "PyDataset")
    # On TensorFlow Keras wraps all other kinds of input into a tf.data pipeline that prefetches.
    return training.backend == "tensorflow" and training.kind == "fit" and found.adapter != "tf.data"


def _operators(listed: Sequence[Mapping[str, Any]]) -> Iterator[Operator]:
    told = [tuple(int(below) for below in each.get("inputs") or ()) for each in listed]
    for place, each in enumerate(listed):
        # Captures of earlier versions do not say: one after the other, as nearly all are.
        chained = (place + 1,) if place + 1 < len(listed) else ()
        yield replace(_operator(each), inputs=told[place] if _ends(told) else chained)


def _ends(inputs: Sequence[Sequence[int]]) -> bool:
    """Tell whether the operators are all there and none takes, in the end, from itself."""
    left = dict(enumerate(inputs))
    while done := [place for place, below in left.items() if not any(each in left for each in below)]:
        for place in done:
            del left[place]
    return not left and any(inputs) and all(0 <= each < len(inputs) for below in inputs for each in below)


def _operator(each: Mapping[str, Any]) -> Operator:
    parallel, elements = each.get("parallel"), each.get("elements")
    return Operator(
        op=str(each["op"]),
        python=bool(each.get("python")),
        stateful=bool(each.get("stateful")),
        parallel=int(parallel) if parallel is not None else None,
        buffer=each.get("buffer"),
        site=_site(each.get("built")),
        function=_site(each.get("site")),
        random=each.get("random"),
        elements=elements if isinstance(elements, int) else None,
        endless=elements == "infinite",
        batch=each.get("batch"),
        cache=each.get("cache"),
        bytes_each=each.get("bytes"),
        reads=bool(each.get("reads")),
        decodes=bool(each.get("decodes")),
        pads=bool(each.get("pads")),
    )


def _site(found: Sequence[Any] | None) -> Site | None:
    return Site(str(found[0]), int(found[1])) if found else None


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

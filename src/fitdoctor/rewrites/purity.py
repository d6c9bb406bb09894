"""What the functions of a tf.data stage do beside computing: Python, random numbers, state, files.

Read from the graphs that TensorFlow traced, through every function they call.  What is not known to be harmless counts
as state: a rewrite that needs a pure function then leaves it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.probes.input_tf_generators import KEPT
from fitdoctor.probes.random_tf import WITH_SEED
from fitdoctor.rewrites.stages import every, graph_of

_PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
_CALLS = frozenset(
    {"PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile", "Case",
     "StatelessCase", "SymbolicGradient", "RemoteCall"}
)  # fmt: skip
"""Ops that only call functions, which are looked at themselves."""
_HARMLESS = frozenset(
    {"Assert", "Placeholder", "RangeDataset", "TensorDataset", "TensorSliceDataset", "TFRecordDataset",
     "TFRecordDatasetV2", "TextLineDataset", "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2",
     "DummySeedGenerator", "DummyMemoryCache"}
)  # fmt: skip
"""Ops that TensorFlow marks as stateful only to keep them from being folded away."""
_READS_STATE = frozenset(
    {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "LookupTableFindV2", "LookupTableSizeV2",
     "VariableShape", "VarIsInitializedOp"}
)  # fmt: skip
_READS_FILES = frozenset(
    {"ReadFile", "TFRecordDataset", "TFRecordDatasetV2", "TextLineDataset", "FixedLengthRecordDataset",
     "FixedLengthRecordDatasetV2", "ReaderReadV2", "MatchingFiles"}
)  # fmt: skip
_SEED_STATES = ("seed_generator_state", "StateVar")
"""Names of the variables from which Keras's layers and `tf.random.Generator` draw their numbers."""
_DRAWS = frozenset({"ReadVariableOp", "AssignVariableOp", "AssignAddVariableOp", "RngReadAndSkip", "RngSkip"})
"""What is done to them."""
_RANDOM = WITH_SEED | {
    "ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2",
    "RandomDataset", "RandomDatasetV2",
}  # fmt: skip
PURE_SOURCES = frozenset(
    {"Tensor", "TensorSlice", "SparseTensorSlice", "Range", "TFRecord", "TextLine", "FixedLengthRecord", "List"}
)
"""Sources that give the same elements in the same order in every epoch, as long as their files stay as they are."""
KNOWN = frozenset(
    {"Map", "ParallelMap", "Batch", "ParallelBatch", "PaddedBatch", "Prefetch", "Shuffle", "Repeat", "Take", "Skip",
     "Cache", "Filter", "TakeWhile", "FlatMap", "Interleave", "ParallelInterleave", "Scan", "Window", "Shard", "Zip",
     "Concatenate", "Unbatch", "Rebatch", "Options", "Restructured", "IgnoreErrors"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Contents:
    """What the functions of one or several stages do."""

    python: bool = False
    """Calls back into Python, which may do anything."""
    random: bool = False
    """Draws random numbers that depend on how often it was called before (seeded or not)."""
    seeded: bool = True
    """Every random op has a seed of its own or the global one."""
    reads_state: bool = False
    """Reads variables or tables that somebody else may change."""
    draws: str = ""
    """The op that advances the state of a generator which is a variable: one of Keras, or of `tf.random`."""
    other: str = ""
    """The first op that changes state, or is not known to leave it alone."""
    reads_files: bool = False
    marked: bool = False
    """TensorFlow takes it for stateful, and therefore does not call it several times at once by itself."""

    @property
    def pure(self) -> bool:
        """Tell whether the same element always gives the same result and nothing else happens."""
        return not (self.python or self.random or self.reads_state or self.other)

    @property
    def touches(self) -> str:
        """Say what running it once more would disturb; empty where nothing."""
        if self.python:
            return "it calls Python, which may have side effects"
        changed = self.other or self.draws
        return f"it changes state ({changed})" if changed else ""

    @property
    def why(self) -> str:
        """Say what keeps it from being pure."""
        if self.touches:
            return self.touches
        if self.random:
            return "it draws random numbers"
        return "it reads variables or tables that may change" if self.reads_state else ""


def of_stage(stage: Any) -> Contents:
    """Look into one stage."""
    name = name_of(stage)
    if name == "TFRecord":
        files = {name_of(each) for each in every(stage._filenames)}
        odd = files - {"Tensor", "TensorSlice"}
        return Contents(reads_files=True, other="a list of files that is a pipeline itself" if odd else "")
    if name in PURE_SOURCES:
        return Contents(reads_files=name in ("TextLine", "FixedLengthRecord"))
    if name == "Variant":
        return _opaque(stage)
    if name not in KNOWN:
        return Contents(other=f"{name}Dataset")
    return merged(of_function(each) for each in stage._functions())


def of_pipeline(dataset: Any) -> Contents:
    """Look into all stages of a pipeline."""
    return merged(of_stage(each) for each in every(dataset))


def of_function(wrapper: Any) -> Contents:
    """Look into one traced function and all that it calls."""
    graph = getattr(getattr(wrapper, "function", None), "graph", None)
    if graph is None:
        return Contents(other="a function that was not traced")
    return of_nodes(_nodes(graph.as_graph_def()), drawn=_only_seeds(graph))


def _only_seeds(graph: Any) -> bool:
    """Tell whether all variables that a function uses are the states of generators of random numbers."""
    names = [str(each.name).rpartition("/")[2].partition(":")[0] for each in getattr(graph, "variables", ())]
    return bool(names) and all(name.rstrip("_0123456789") in _SEED_STATES for name in names)


def merged(several: Iterable[Contents]) -> Contents:
    """Return what several do together."""
    found = list(several)
    return Contents(
        python=any(each.python for each in found),
        random=any(each.random for each in found),
        seeded=all(each.seeded for each in found),
        reads_state=any(each.reads_state for each in found),
        draws=next((each.draws for each in found if each.draws), ""),
        other=next((each.other for each in found if each.other), ""),
        reads_files=any(each.reads_files for each in found),
        marked=any(each.marked for each in found),
    )


def _opaque(stage: Any) -> Contents:
    """Look into a dataset that was made of a tensor: TensorFlow's own counter under `enumerate` is one."""
    try:
        return of_nodes(_nodes(graph_of(stage)))
    except CannotRun as error:
        return Contents(other=error.problem)


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def of_nodes(nodes: Iterable[Any], *, drawn: bool = False) -> Contents:
    """Judge ops one by one; `drawn`: what variables there are hold the states of generators of random numbers."""
    from tensorflow.python.framework import op_def_registry

    python = random = reads_state = reads_files = marked = False
    seeded, other, draws = True, "", ""
    for node in nodes:
        op = node.op
        if op in _CALLS or op in ("_Retval", "_Arg"):
            continue
        definition = op_def_registry.get(op)
        marked |= _stateful(definition) and op not in ("Assert", "Placeholder")
        python |= op in _PYTHON
        reads_files |= op in _READS_FILES
        if drawn and op in _DRAWS:
            random = True
            draws = draws or (op if op != "ReadVariableOp" else "")
        elif op in _RANDOM:
            random = True
            seeded &= bool(node.attr["seed"].i or node.attr["seed2"].i)
        elif op in _READS_STATE:
            reads_state = True
        elif op not in _PYTHON | _HARMLESS and (_stateful(definition) or _takes_resource(definition)):
            other = other or op
    return Contents(python, random, seeded, reads_state, draws, other, reads_files, marked)


def _stateful(definition: Any) -> bool:
    """Tell whether TensorFlow takes an op for stateful; one it does not know may be."""
    return definition is None or bool(definition.is_stateful)


def _takes_resource(definition: Any) -> bool:
    from tensorflow.core.framework import types_pb2

    return any(argument.type == types_pb2.DT_RESOURCE for argument in definition.input_arg)


def reorders(dataset: Any) -> bool:
    """Tell whether the user allowed elements to come in another order than he wrote."""
    if dataset.options().deterministic is False:
        return True
    for stage in every(dataset):
        if vars(stage).get("_deterministic") == "false":
            return True
        if name_of(stage) == "ParallelInterleave" and _loose(stage):
            return True
    return False


def _loose(stage: Any) -> bool:
    nodes = (node for node in graph_of(stage).node if node.op.startswith("ParallelInterleave"))
    return any(node.attr["deterministic"].s == b"false" for node in nodes)


def repeats(stage: Any, *, python: bool = False) -> bool:
    """Tell whether a stage and all below it give the same elements in every epoch.

    `python`: believe that the user's Python functions do, which nobody can prove.
    """
    return all(
        name_of(each) not in ("Shuffle", "Repeat", "Cache") and steady(each, python=python) for each in every(stage)
    )


def steady(stage: Any, *, python: bool = False) -> bool:
    """Tell whether the functions of a stage give the same for the same element every time; `python`: as above."""
    contents = of_stage(stage)
    if contents.python and (not python or KEPT in vars(stage)):
        return False
    return replace(contents, python=False).pure


def unwritten_cache(dataset: Any) -> str | None:
    """Name a cache file of the user's that is not complete: reading part of the data would leave a lock behind."""
    from pathlib import Path

    for stage in every(dataset):
        name = stage._filename.numpy().decode() if name_of(stage) == "Cache" else ""
        if name and not Path(f"{name}.index").exists():
            return str(name)
    return None

"""What a tf.data dataset is made of."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.probes.input_tf_generators import KEPT
from fitdoctor.probes.install import code_site


def name_of(dataset: Any) -> str:
    """Name the operator of a dataset."""
    return type(dataset).__name__.strip("_").removesuffix("V2").removesuffix("Dataset")


def stages(dataset: Any) -> Iterator[Any]:
    """Yield the dataset and what it is made of, outermost first, along its first inputs."""
    seen: set[int] = set()
    while dataset is not None and id(dataset) not in seen:
        seen.add(id(dataset))
        yield dataset
        inputs = dataset._inputs() if hasattr(dataset, "_inputs") else []
        dataset = inputs[0] if inputs else None


def describe_dataset(dataset: Any) -> dict[str, Any]:
    """Walk a dataset from its end to its sources."""
    operators: list[dict[str, Any]] = []
    seen: set[int] = set()

    def walk(node: Any) -> None:
        while node is not None and id(node) not in seen:
            seen.add(id(node))
            operators.append(_operator(node))
            inputs = node._inputs() if hasattr(node, "_inputs") else []
            for other in inputs[1:]:
                walk(other)
            node = inputs[0] if inputs else None

    walk(dataset)
    options = dataset.options() if hasattr(dataset, "options") else None
    found: dict[str, Any] = {"dataset": operators}
    if options is not None:
        found["dataset_options"] = {
            "autotune": options.autotune.enabled,
            "inject_prefetch": options.experimental_optimization.inject_prefetch,
            "apply_default_optimizations": options.experimental_optimization.apply_default_optimizations,
            "map_parallelization": options.experimental_optimization.map_parallelization,
            "map_and_batch_fusion": options.experimental_optimization.map_and_batch_fusion,
            "op_determinism": _op_determinism(),
            "private_threadpool_size": options.threading.private_threadpool_size,
            "deterministic": options.deterministic,
        }
    return found


def _op_determinism() -> bool | None:
    config = sys.modules.get("tensorflow.python.framework.config")
    return None if config is None else bool(config.is_op_determinism_enabled())


def _operator(node: Any) -> dict[str, Any]:
    operator: dict[str, Any] = {"op": name_of(node)}
    if KEPT in vars(node):
        operator["generator"] = True
    parallel = getattr(node, "_num_parallel_calls", None)
    if parallel is not None:
        operator["parallel"] = _static_int(parallel)
    buffer = getattr(node, "_buffer_size", None)
    if buffer is not None:
        operator["buffer"] = _static_int(buffer)
    functions = node._functions() if hasattr(node, "_functions") else []
    if functions:
        graphs = [graph for f in functions if (graph := _graph(f)) is not None]
        types = {op.type for graph in graphs for op in graph.get_operations()}
        operator["python"] = bool(types & {"PyFunc", "EagerPyFunc", "PyFuncStateless"})
        operator["stateful"] = any(_stateful(graph) for graph in graphs)
        function = getattr(functions[0], "_func", None)
        site = code_site(function) if function is not None else None
        if site is not None:
            operator["site"] = [site.path, site.line]
    return operator


def _graph(function: Any) -> Any:
    return getattr(getattr(function, "function", None), "graph", None)


def _stateful(graph: Any) -> bool:
    return any(op.op_def is not None and op.op_def.is_stateful for op in graph.get_operations())


def _static_int(value: Any) -> int | None:
    try:
        tf = sys.modules["tensorflow"]
        number = tf.get_static_value(value) if tf.is_tensor(value) else value
        return None if number is None else int(number)
    except Exception:
        return None

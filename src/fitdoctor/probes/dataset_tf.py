"""What a tf.data dataset is made of."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.probes import random_tf
from fitdoctor.probes.dataset_ops import READS, marks
from fitdoctor.probes.input_tf_built import built
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
    """Walk a dataset from its end to its sources; `inputs` are places in the list."""
    operators: list[dict[str, Any]] = []
    places: dict[int, int] = {}

    def walk(node: Any) -> int:
        """Add the chain that begins here, and whatever else feeds it; return where it begins."""
        first = places.get(id(node), len(operators))
        above: dict[str, Any] | None = None
        while node is not None:
            known = places.get(id(node))
            if above is not None:
                above["inputs"].insert(0, len(operators) if known is None else known)
            if known is not None:
                break
            places[id(node)] = len(operators)
            above = {**_operator(node), "inputs": []}
            operators.append(above)
            inputs = list(node._inputs()) if hasattr(node, "_inputs") else []
            above["inputs"].extend(walk(other) for other in inputs[1:])
            node = inputs[0] if inputs else None
        return first

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
    name = name_of(node)
    operator: dict[str, Any] = {"op": name}
    where = built(node)
    if where is not None:
        operator["built"] = [where.path, where.line]
    if KEPT in vars(node):
        operator["generator"] = True
    for key, attribute in (("parallel", "_num_parallel_calls"), ("buffer", "_buffer_size"), ("batch", "_batch_size")):
        value = getattr(node, attribute, None)
        if value is not None:
            operator[key] = static_int(value)
    cardinality = _cardinality(node)
    if cardinality is not None:
        operator["elements"] = cardinality
    size = _element_bytes(node)
    if size is not None:
        operator["bytes"] = size
    if name == "Cache":
        # Which file is nobody's business.
        operator["cache"] = "file" if _static_text(getattr(node, "_filename", None)) else "memory"
    functions = node._functions() if hasattr(node, "_functions") else []
    graphs = [graph for f in functions if (graph := _graph(f)) is not None]
    drawn = random_tf.of_dataset(node, name) or random_tf.of_graphs(graphs)
    if drawn is not None:
        operator["random"] = drawn
    if functions:
        types = {each.op for graph in graphs for each in random_tf.nodes(graph)}
        operator["python"] = bool(types & {"PyFunc", "EagerPyFunc", "PyFuncStateless"})
        operator["stateful"] = any(_stateful(graph) for graph in graphs)
        operator.update(marks(types))
        function = getattr(functions[0], "_func", None)
        site = code_site(function) if function is not None else None
        if site is not None:
            operator["site"] = [site.path, site.line]
    return operator


def _cardinality(node: Any) -> int | str | None:
    """Return how many elements it gives, "infinite", or None where that is not known without going through them."""
    try:
        count = int(node.cardinality())
    except Exception:
        return None
    return count if count >= 0 else "infinite" if count == -1 else None


def _element_bytes(node: Any) -> int | None:
    """Return the bytes of one element where all its shapes are fixed."""
    tf = sys.modules["tensorflow"]
    total = 0
    try:
        for spec in tf.nest.flatten(node.element_spec):
            if not isinstance(spec, tf.TensorSpec) or spec.dtype in (tf.string, tf.variant, tf.resource):
                return None
            count = spec.shape.num_elements()
            if count is None:
                return None
            total += count * spec.dtype.size
    except Exception:
        return None
    return total


def _static_text(value: Any) -> str:
    tf = sys.modules["tensorflow"]
    found = tf.get_static_value(value) if tf.is_tensor(value) else value
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found or "")


def reads_files(dataset: Any) -> bool:
    """Tell whether the functions of a dataset read files by their names."""
    graphs = [_graph(each) for each in (dataset._functions() if hasattr(dataset, "_functions") else [])]
    return any(op.type in READS for graph in graphs if graph is not None for op in graph.get_operations())


def _graph(function: Any) -> Any:
    return getattr(getattr(function, "function", None), "graph", None)


def _stateful(graph: Any) -> bool:
    return any(op.op_def is not None and op.op_def.is_stateful for op in graph.get_operations())


def static_int(value: Any) -> int | None:
    """Return a number that was given to an operator, where it is known."""
    try:
        tf = sys.modules["tensorflow"]
        number = tf.get_static_value(value) if tf.is_tensor(value) else value
        return None if number is None else int(number)
    except Exception:
        return None

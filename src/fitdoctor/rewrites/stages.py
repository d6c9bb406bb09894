"""The TensorFlow op of each kind of tf.data stage, called with what the stage's object holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.probes.dataset_tf import name_of

MOST_EMBEDDED = 64 << 20
"""Bytes of arrays in a pipeline above which its graph, which holds them all, is not asked for."""
SOURCES = frozenset(
    {"Tensor", "TensorSlice", "SparseTensorSlice", "Range", "TFRecord", "TextLine", "FixedLengthRecord", "List",
     "MatchingFiles", "Csv", "Random", "Variant", "Generator"}
)  # fmt: skip
"""Stages at the bottom, which are used as they are."""


def inputs(stage: Any) -> list[Any]:
    """Return what a stage reads from; nothing for a source."""
    return [] if name_of(stage) in SOURCES else list(stage._inputs())


def every(dataset: Any) -> Iterator[Any]:
    """Yield every stage, as often as it is used."""
    yield dataset
    for below in inputs(dataset):
        yield from every(below)


def graph_of(stage: Any) -> Any:
    """Return the graph of a pipeline up to a stage, with the arrays it holds: small ones only."""
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.data.ops.options import ExternalStatePolicy

    if sum(_bytes(each) for each in every(stage)) > MOST_EMBEDDED:
        raise CannotRun(f"a {name_of(stage)} above large arrays cannot be looked into", do="try it in the script")
    serialized = stage._as_serialized_graph(external_state_policy=ExternalStatePolicy.IGNORE)
    return graph_pb2.GraphDef.FromString(serialized.numpy())


def _bytes(stage: Any) -> int:
    return sum(int(getattr(each, "nbytes", 0)) for each in vars(stage).get("_tensors", ()))


def _attribute(stage: Any, name: str) -> Any:
    """Return an argument that the stage's object does not keep: its graph does."""
    graph = graph_of(stage)
    nodes = {node.name: node for node in graph.node}
    end = next(node for node in graph.node if node.op == "_Retval")
    outermost = nodes[end.input[0].partition(":")[0]]
    if name not in outermost.attr:
        raise CannotRun(f"a {name_of(stage)} of this pipeline cannot be built again", do="try it in the script")
    return outermost.attr[name]


def _ops() -> Any:
    from tensorflow.python.ops import gen_dataset_ops

    return gen_dataset_ops


def _more_ops() -> Any:
    from tensorflow.python.ops import gen_experimental_dataset_ops

    return gen_experimental_dataset_ops


def _map(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    function = copy._map_func.function
    return _ops().map_dataset(
        below[0]._variant_tensor, function.captured_inputs, f=function,
        use_inter_op_parallelism=copy._use_inter_op_parallelism, preserve_cardinality=copy._preserve_cardinality,
        force_synchronous=copy._force_synchronous, **copy._common_args,
    )  # fmt: skip


def parallel_map(copy: Any, below: list[Any], stage: Any) -> Any:
    """Make the tensor of a map with several calls at a time."""
    del stage
    function = copy._map_func.function
    return _ops().parallel_map_dataset_v2(
        below[0]._variant_tensor, function.captured_inputs, f=function, num_parallel_calls=copy._num_parallel_calls,
        deterministic=copy._deterministic, use_inter_op_parallelism=copy._use_inter_op_parallelism,
        preserve_cardinality=copy._preserve_cardinality,
        use_unbounded_threadpool=bool(copy._use_unbounded_threadpool), **copy._common_args,
    )  # fmt: skip


def _batch(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    return _ops().batch_dataset_v2(
        below[0]._variant_tensor, batch_size=copy._batch_size, drop_remainder=copy._drop_remainder, **copy._common_args
    )


def _parallel_batch(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    return _ops().parallel_batch_dataset(
        below[0]._variant_tensor, batch_size=copy._batch_size, num_parallel_calls=copy._num_parallel_calls,
        drop_remainder=copy._drop_remainder, deterministic=copy._deterministic, **copy._common_args,
    )  # fmt: skip


def _padded_batch(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    from tensorflow.python.data.util import nest, structure

    return _ops().padded_batch_dataset_v2(
        below[0]._variant_tensor, batch_size=copy._batch_size, padded_shapes=nest.flatten(copy._padded_shapes),
        padding_values=nest.flatten(copy._padding_values), drop_remainder=copy._drop_remainder,
        output_shapes=structure.get_flat_tensor_shapes(copy._structure), metadata=copy._metadata.SerializeToString(),
    )  # fmt: skip


def _prefetch(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    from tensorflow.python.data.ops.dataset_ops import AUTOTUNE

    return _ops().prefetch_dataset(
        below[0]._variant_tensor, buffer_size=copy._buffer_size, slack_period=None,
        legacy_autotune=int(copy._buffer_size) == AUTOTUNE, **copy._common_args,
    )  # fmt: skip


def _shuffle(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    return _ops().shuffle_dataset_v3(
        below[0]._variant_tensor, buffer_size=copy._buffer_size, seed=copy._seed, seed2=copy._seed2,
        seed_generator=_ops().dummy_seed_generator(), reshuffle_each_iteration=copy._reshuffle_each_iteration,
        **copy._common_args,
    )  # fmt: skip


def _cache(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    return _ops().cache_dataset_v2(
        below[0]._variant_tensor, filename=copy._filename, cache=_ops().dummy_memory_cache(), **copy._common_args
    )


def _interleave(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    function = copy._map_func.function
    return _ops().interleave_dataset(
        below[0]._variant_tensor, function.captured_inputs, copy._cycle_length, copy._block_length, f=function,
        **copy._common_args,
    )  # fmt: skip


def interleaved(copy: Any, below: list[Any], deterministic: str) -> Any:
    """Make the tensor of an interleave that reads several inputs at a time."""
    function = copy._map_func.function
    return _ops().parallel_interleave_dataset_v4(
        below[0]._variant_tensor, function.captured_inputs, copy._cycle_length, copy._block_length,
        copy._buffer_output_elements, copy._prefetch_input_elements, copy._num_parallel_calls, f=function,
        deterministic=deterministic, **copy._common_args,
    )  # fmt: skip


def _parallel_interleave(copy: Any, below: list[Any], stage: Any) -> Any:
    return interleaved(copy, below, _attribute(stage, "deterministic").s.decode())


def _flat_map(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    function = copy._map_func.function
    return _ops().flat_map_dataset(below[0]._variant_tensor, function.captured_inputs, f=function, **copy._common_args)


def _filter(copy: Any, below: list[Any], stage: Any) -> Any:
    make = _more_ops().take_while_dataset if name_of(stage) == "TakeWhile" else _ops().filter_dataset
    function = copy._predicate.function
    return make(
        below[0]._variant_tensor, other_arguments=function.captured_inputs, predicate=function, **copy._common_args
    )


def _scan(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    from tensorflow.python.data.util import structure

    function = copy._scan_func.function
    return _more_ops().scan_dataset(
        below[0]._variant_tensor, structure.to_tensor_list(copy._state_structure, copy._initial_state),
        function.captured_inputs, f=function, preserve_cardinality=True, **copy._common_args,
    )  # fmt: skip


def _window(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    return _ops().window_dataset(
        below[0]._variant_tensor, size=copy._size, shift=copy._shift, stride=copy._stride,
        drop_remainder=copy._drop_remainder, **copy._common_args,
    )  # fmt: skip


def _counted(op: str) -> Callable[[Any, list[Any], Any], Any]:
    def make(copy: Any, below: list[Any], stage: Any) -> Any:
        del stage
        return getattr(_ops(), op)(below[0]._variant_tensor, count=copy._count, **copy._common_args)

    return make


def _shard(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    return _ops().shard_dataset(
        below[0]._variant_tensor, num_shards=copy._num_shards, index=copy._index, **copy._common_args
    )


def _zip(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    return _ops().zip_dataset([each._variant_tensor for each in below], **copy._common_args)


def _concatenate(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    return _ops().concatenate_dataset(below[0]._variant_tensor, below[1]._variant_tensor, **copy._common_args)


def _unbatch(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    return _more_ops().unbatch_dataset(below[0]._variant_tensor, **copy._common_args)


def _rebatch(copy: Any, below: list[Any], stage: Any) -> Any:
    del stage
    return _more_ops().rebatch_dataset_v2(
        below[0]._variant_tensor, batch_sizes=copy._batch_sizes, drop_remainder=copy._drop_remainder,
        **copy._flat_structure,
    )  # fmt: skip


def _ignore_errors(copy: Any, below: list[Any], stage: Any) -> Any:
    log = _attribute(stage, "log_warning").b
    return _more_ops().ignore_errors_dataset(below[0]._variant_tensor, log_warning=log, **copy._flat_structure)


def _options(copy: Any, below: list[Any], stage: Any) -> Any:
    merged = stage._options_attr._to_proto().SerializeToString()
    return _ops().options_dataset(below[0]._variant_tensor, merged, **copy._common_args)


def _restructured(copy: Any, below: list[Any], stage: Any) -> Any:
    del copy, stage
    return below[0]._variant_tensor


MAKERS: dict[str, Callable[[Any, list[Any], Any], Any]] = {
    "Map": _map,
    "ParallelMap": parallel_map,
    "Batch": _batch,
    "ParallelBatch": _parallel_batch,
    "PaddedBatch": _padded_batch,
    "Prefetch": _prefetch,
    "Shuffle": _shuffle,
    "Repeat": _counted("repeat_dataset"),
    "Take": _counted("take_dataset"),
    "Skip": _counted("skip_dataset"),
    "Cache": _cache,
    "Filter": _filter,
    "TakeWhile": _filter,
    "FlatMap": _flat_map,
    "Interleave": _interleave,
    "ParallelInterleave": _parallel_interleave,
    "Scan": _scan,
    "Window": _window,
    "Shard": _shard,
    "Zip": _zip,
    "Concatenate": _concatenate,
    "Unbatch": _unbatch,
    "Rebatch": _rebatch,
    "IgnoreErrors": _ignore_errors,
    "Options": _options,
    "Restructured": _restructured,
}
"""`make(copy, inputs, original)` returns the tensor of a copied stage."""

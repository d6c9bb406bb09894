"""Functions that tf.data calls, read op by op and put together anew with some of it replaced.

The user's own functions are neither called nor traced again: their graphs are read, calls of other functions inlined,
and what is wanted of them is copied into a function of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fitdoctor.model import Site
from fitdoctor.probes.install import is_users

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One op of the user's, with where its inputs come from once calls are inlined."""

    op: Any
    inputs: tuple[Value, ...]
    after: tuple[Node, ...]
    """Ops that must have run before."""

    @property
    def kind(self) -> str:
        """Name the op."""
        return str(self.op.type)

    def output(self, index: int = 0) -> Value:
        """Return one of its results."""
        return Value(self, index)

    @property
    def site(self) -> Site | None:
        """Return the line of the user's own that made it."""
        for frame in reversed(list(self.op.traceback or ())):
            if is_users(frame.filename):
                return Site(frame.filename, int(frame.lineno), None, frame.name or None)
        return None


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: the result of a node; without one, part `index` of the element or a captured tensor."""

    node: Node | None
    index: int
    captured: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """Functions that are called one after the other on an element, as one."""

    nodes: tuple[Node, ...]
    """In an order in which they can run."""
    outputs: tuple[Value, ...]

    def users(self, value: Value) -> Iterator[Node]:
        """Yield the ops that take a tensor."""
        for node in self.nodes:
            if value in node.inputs:
                yield node


Instead = Mapping[Value, tuple[Sequence[Value], Callable[..., Any]]]
"""What stands in place of a tensor: what it is made of, and how."""


def inlined(functions: Sequence[Any]) -> Function:
    """Read concrete functions of which each takes what the one before returns."""
    nodes: list[Node] = []
    captures = 0
    values: list[Value] = []
    for place, function in enumerate(functions):
        inputs = len(function.graph.inputs) - len(function.captured_inputs)
        given = [Value(None, index) for index in range(inputs)] if place == 0 else values[:inputs]
        for tensor in function.captured_inputs:
            captures += 1
            given.append(Value(None, -captures, tensor))
        values = _read(function.graph, given, nodes)
    return Function(tuple(nodes), tuple(values))


def _read(graph: Any, given: Sequence[Value], nodes: list[Node]) -> list[Value]:
    known = {tensor.name: value for tensor, value in zip(graph.inputs, given, strict=True)}
    made: dict[str, tuple[Node, ...]] = {}
    for op in graph.get_operations():
        if any(tensor.name in known for tensor in op.outputs):
            continue  # where an argument comes in
        inputs = [known[tensor.name] for tensor in op.inputs]
        called = _called(op)
        first = len(nodes)
        if called is None:
            after = tuple(node for each in op.control_inputs for node in made.get(each.name, ()))
            nodes.append(Node(op, tuple(inputs), after))
            results = [nodes[-1].output(index) for index in range(len(op.outputs))]
        else:
            results = _read(called, inputs, nodes)
        made[op.name] = tuple(nodes[first:])
        known.update({tensor.name: value for tensor, value in zip(op.outputs, results, strict=True)})
    return [known[tensor.name] for tensor in graph.outputs]


def _called(op: Any) -> Any:
    """Return the graph of the function that an op calls; None where it calls none, or one that cannot be read."""
    if op.type not in _CALLS:
        return None
    function = op.graph._get_function(op.node_def.attr["f"].func.name)
    return getattr(function, "graph", None)


def build(function: Function, wanted: Sequence[Value], element: Sequence[Any], instead: Instead | None = None) -> Any:
    """Copy what `wanted` needs into the graph that is being traced, and return its tensors."""
    replaced = instead or {}
    made: dict[Value, Any] = {}
    needed = _needed(wanted, replaced)

    def get(value: Value) -> Any:
        if value in made:
            return made[value]
        if value in replaced:
            parts, make = replaced[value]
            made[value] = make(*map(get, parts))
        elif value.node is None:
            made[value] = value.captured if value.captured is not None else element[value.index]
        return made[value]

    copies: dict[int, Any] = {}
    for node in function.nodes:
        if id(node) in needed:
            before = [copies[id(each)] for each in node.after if id(each) in copies]
            copies[id(node)] = copy = copy_of(node, [get(value) for value in node.inputs], before)
            for index, tensor in enumerate(copy.outputs):
                if node.output(index) not in replaced:
                    made[node.output(index)] = tensor
    return [get(value) for value in wanted]


def _needed(wanted: Sequence[Value], replaced: Instead) -> set[int]:
    """Return the nodes that must run, by their ids."""
    found: set[int] = set()
    todo, seen = list(wanted), set()
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in replaced:
            todo.extend(replaced[value][0])
        elif value.node is not None and id(value.node) not in found:
            found.add(id(value.node))
            todo.extend(value.node.inputs)
    return found


def copy_of(node: Node, inputs: list[Any], before: Sequence[Any] = ()) -> Any:
    """Copy one op into the graph that is being traced."""
    tf = sys.modules["tensorflow"]
    graph = tf.compat.v1.get_default_graph()
    op = node.op
    attributes = {name: value for name, value in op.node_def.attr.items() if not name.startswith("_")}
    for value in attributes.values():
        for name in [value.func.name, *(each.name for each in value.list.func)]:
            inner = op.graph._get_function(name) if name else None
            if inner is not None:
                graph._add_function_recursive(inner)
    with graph.control_dependencies(list(before)):
        return graph._create_op_internal(
            op.type, inputs, [each.dtype for each in op.outputs], attrs=attributes, op_def=op.op_def,
            compute_device=False,
        )  # fmt: skip


def mapped(
    data: Any, function: Function, wanted: Sequence[Value], instead: Instead | None = None, parallel: int | None = None
) -> Any:
    """Put a copy of (part of) a function on a dataset; elements of the result are tuples of what is wanted."""
    return data.map(_calling(data.element_spec, function, wanted, instead, tuple), num_parallel_calls=parallel)


def in_place_of(stage: Any, data: Any, function: Function, instead: Instead) -> Any:
    """Put a function with some of it replaced on a dataset; what comes out is of the kind that a map's elements are."""
    from tensorflow.python.data.util import structure

    tf, spec = sys.modules["tensorflow"], stage.element_spec
    shapes = structure.get_flat_tensor_shapes(spec)

    def packed(tensors: Sequence[Any]) -> Any:
        shaped = [tf.ensure_shape(each, shape) for each, shape in zip(tensors, shapes, strict=True)]
        return structure.from_compatible_tensor_list(spec, shaped)

    parallel = getattr(stage, "_num_parallel_calls", None)
    settings: dict[str, Any] = {}
    if parallel is not None:
        settings["num_parallel_calls"] = int(parallel)
        settings["deterministic"] = {"true": True, "false": False}.get(stage._deterministic)
    return data.map(_calling(data.element_spec, function, function.outputs, instead, packed), **settings)


def _calling(
    spec: Any,
    function: Function,
    wanted: Sequence[Value],
    instead: Instead | None,
    packed: Callable[[Sequence[Any]], Any],
) -> Any:
    def call(*element: Any) -> Any:
        given = element if type(spec) is tuple else element[0]
        flat = sys.modules["tensorflow.python.data.util.structure"].to_tensor_list(spec, given)
        return packed(build(function, wanted, flat, instead))

    return sys.modules["tensorflow"].autograph.experimental.do_not_convert(call)

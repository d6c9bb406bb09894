"""A traced function that works number by number gives the same when it is called on stacked elements as it is.

`tf.vectorized_map` needs some operations more for that, which for a tiny function is a visible part of its time.
"""

from __future__ import annotations

import sys
from typing import Any

ALIKE = frozenset(
    {
        "Abs", "Add", "AddV2", "Cast", "Ceil", "ClipByValue", "Cos", "Div", "DivNoNan", "Equal", "Exp", "Expm1",
        "Floor", "FloorDiv", "FloorMod", "Greater", "GreaterEqual", "Identity", "Less", "LessEqual", "Log", "Log1p",
        "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mul", "Neg", "NotEqual", "OnesLike", "Pow",
        "RealDiv", "Reciprocal", "Relu", "Relu6", "Rint", "Round", "Rsqrt", "SelectV2", "Sigmoid", "Sign", "Sin",
        "Sqrt", "Square", "SquaredDifference", "Sub", "Tanh", "TruncateDiv", "TruncateMod", "Xdivy", "ZerosLike",
    }
)  # fmt: skip
"""Operations that treat every number alike, wherever it stands."""


def works_number_by_number(function: Any) -> bool:
    """Tell whether a traced function does: then stacking its arguments stacks its results.

    All that is per element must have as many axes, and constants no more: else a constant or another argument would be
    spread along other axes than it was.
    """
    graph = function.graph
    held = {id(each) for each in graph.internal_captures}
    stacked = {each.name for each in graph.inputs if id(each) not in held}
    for operation in graph.get_operations():
        if operation.type in ("Placeholder", "Const", "NoOp"):
            continue
        mine = [each for each in operation.inputs if each.name in stacked]
        if not mine:
            if operation.type != "Identity":
                return False
            continue
        ranks = {each.shape.rank for each in (*mine, *operation.outputs)}
        rank = next(iter(ranks))
        if operation.type not in ALIKE or len(ranks) > 1 or rank is None:
            return False
        if any(each.shape.rank is None or each.shape.rank > rank for each in operation.inputs):
            return False
        stacked.update(each.name for each in operation.outputs)
    return bool(graph.outputs) and all(each.name in stacked for each in graph.outputs)


def on_stacked(function: Any, rows: list[Any]) -> list[Any]:
    """Put the operations of such a function into the graph that is being traced, with stacked arguments."""
    tf = sys.modules["tensorflow"]
    graph = function.graph
    held = {id(each) for each in graph.internal_captures}
    own = [each for each in graph.inputs if id(each) not in held]
    given = [*zip(own, rows, strict=True), *zip(graph.internal_captures, function.captured_inputs, strict=True)]
    return list(
        tf.graph_util.import_graph_def(
            graph.as_graph_def(),
            input_map={inside.name: outside for inside, outside in given},
            return_elements=[each.name for each in graph.outputs],
            name="",
        )
    )

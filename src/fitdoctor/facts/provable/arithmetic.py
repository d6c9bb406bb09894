"""Functions that treat every number alike, to the bit: on a whole batch they give what they give row by row.

One tensor at a time, and numbers that the source shows: two tensors of an element may have shapes that fit each other,
and not any more once there is a batch of each.  Only operations whose result is exact (IEEE 754): `exp` or `tanh` may
differ in the last bit between one row and many.  And at most one that adds and one that scales: TensorFlow makes one of
`x * 2.2 * 1.1` where `x` is a single number, and not where it is a batch (measured on 2.21), which rounds otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from fitdoctor.facts.provable.functions import function, library, number
from fitdoctor.facts.source_tree import SourceFile

_ADDING = frozenset({"add", "subtract"})
_SCALING = frozenset({"divide", "multiply"})
_CHOOSING = frozenset({"maximum", "minimum"})
_OF_ONE = frozenset({"abs", "negative", "square"})
_OPERATORS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}
_TYPES = frozenset(
    f"tensorflow.{name}"
    for name in ("bfloat16", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16")
)


@dataclass(frozen=True, slots=True)
class Value:
    """A number that the source shows, or a tensor of the element, and what was done to it."""

    tensor: bool
    added: int = 0
    scaled: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether nothing that was done to it can be drawn together."""
        return self.added <= 1 and self.scaled <= 1


NUMBER, TENSOR = Value(False), Value(True)
Known = Mapping[str, Value]
"""What the names inside of a function stand for."""


def is_by_number(file: SourceFile, given: ast.expr) -> bool:
    """Tell whether a function surely gives for a batch what it gives for each of its rows."""
    found = function(file, given)
    if found is None or not found.parameters or not found.body:
        return False
    known = dict.fromkeys(found.parameters, TENSOR)
    *steps, last = found.body
    for step in steps:
        if not isinstance(step, ast.Assign) or len(step.targets) != 1 or not isinstance(step.targets[0], ast.Name):
            return False
        value = _value(file, step.value, known)
        if value is None:
            return False
        known[step.targets[0].id] = value
    return isinstance(last, ast.Return) and last.value is not None and _are_tensors(file, last.value, known)


def _are_tensors(file: SourceFile, node: ast.expr, known: Known) -> bool:
    """Tell whether all that is returned has rows: a plain number would be one per element, and one per batch then."""
    if isinstance(node, ast.Tuple):
        return all(_are_tensors(file, each, known) for each in node.elts)
    if isinstance(node, ast.Dict):
        named = all(isinstance(each, ast.Constant) for each in node.keys)
        return named and all(_are_tensors(file, each, known) for each in node.values)
    value = _value(file, node, known)
    return value is not None and value.tensor and value.is_exact


def _value(file: SourceFile, node: ast.expr, known: Known) -> Value | None:
    """Return what an expression stands for; None where that is not sure."""
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if number(file, node):
        return NUMBER
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _value(file, node.operand, known)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _of_both(_OPERATORS[type(node.op)], [_value(file, each, known) for each in (node.left, node.right)])
    return _called(file, node, known) if isinstance(node, ast.Call) else None


def _of_both(name: str, values: list[Value | None]) -> Value | None:
    """Return what a tensor and a number give, in either order; two numbers give one."""
    tensors = [each for each in values if each is not None and each.tensor]
    if len(values) != 2 or None in values or len(tensors) > 1:
        return None
    if not tensors:
        return NUMBER
    return Value(True, tensors[0].added + (name in _ADDING), tensors[0].scaled + (name in _SCALING))


def _called(file: SourceFile, node: ast.Call, known: Known) -> Value | None:
    name = library(file, node.func)
    short = name.removeprefix("tensorflow.").removeprefix("math.")
    if not name.startswith("tensorflow.") or any(isinstance(each, ast.Starred) for each in node.args):
        return None
    if short == "cast":
        return _cast(file, node, known)
    values = [_value(file, each, known) for each in node.args]
    tensor = values[0] if values and values[0] is not None and values[0].tensor else None
    if node.keywords:
        return None
    if short in _OF_ONE:
        return tensor if len(values) == 1 else None
    if short == "clip_by_value":
        return tensor if values[1:] == [NUMBER, NUMBER] else None
    if short in _ADDING | _SCALING | _CHOOSING:
        found = _of_both(short, values)
        return found if found is not None and found.tensor else None
    return None


def _cast(file: SourceFile, node: ast.Call, known: Known) -> Value | None:
    given = [*node.args, *(each.value for each in node.keywords if each.arg == "dtype")]
    if len(given) != 2 or len(node.keywords) > 1:
        return None
    said = given[1].value if isinstance(given[1], ast.Constant) else None
    kind = f"tensorflow.{said}" if isinstance(said, str) else library(file, given[1])
    value = _value(file, given[0], known)
    return value if kind in _TYPES and value is not None and value.tensor else None

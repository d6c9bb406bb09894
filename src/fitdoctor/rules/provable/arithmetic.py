"""Functions that treat every number alike, to the bit: on a whole batch they give what they give row by row.

One tensor at a time, and numbers that the source shows: two tensors of an element may have shapes that fit each other,
and not any more once there is a batch of each.  Only operations whose result is exact (IEEE 754): `exp` or `tanh` may
differ in the last bit between one row and many.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from fitdoctor.facts.source_tree import SourceFile
from fitdoctor.rules.provable.functions import function, library, number

_EXACT = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_OF_ONE = frozenset({"abs", "negative", "square"})
_OF_TWO = frozenset({"add", "divide", "maximum", "minimum", "multiply", "subtract"})
_TYPES = frozenset(
    f"tensorflow.{name}"
    for name in ("bfloat16", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16")
)
Known = Mapping[str, bool]
"""The names inside of a function: whether each is a tensor of the element; numbers are not."""


def is_by_number(file: SourceFile, given: ast.expr) -> bool:
    """Tell whether a function surely gives for a batch what it gives for each of its rows."""
    found = function(file, given)
    if found is None or not found.parameters or not found.body:
        return False
    known = dict.fromkeys(found.parameters, True)
    *steps, last = found.body
    for step in steps:
        if not isinstance(step, ast.Assign) or len(step.targets) != 1 or not isinstance(step.targets[0], ast.Name):
            return False
        kind = _is_tensor(file, step.value, known)
        if kind is None:
            return False
        known[step.targets[0].id] = kind
    return isinstance(last, ast.Return) and last.value is not None and _are_tensors(file, last.value, known)


def _are_tensors(file: SourceFile, node: ast.expr, known: Known) -> bool:
    """Tell whether all that is returned has rows: a plain number would be one per element, and one per batch then."""
    if isinstance(node, ast.Tuple):
        return all(_are_tensors(file, each, known) for each in node.elts)
    if isinstance(node, ast.Dict):
        named = all(isinstance(each, ast.Constant) for each in node.keys)
        return named and all(_are_tensors(file, each, known) for each in node.values)
    return _is_tensor(file, node, known) is True


def _is_tensor(file: SourceFile, node: ast.expr, known: Known) -> bool | None:
    """Tell whether an expression is a tensor, treated number by number, or a number; None where it may be neither."""
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if number(file, node):
        return False
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _is_tensor(file, node.operand, known)
    if isinstance(node, ast.BinOp) and isinstance(node.op, _EXACT):
        return _of_both(file, node.left, node.right, known)
    return _called(file, node, known) if isinstance(node, ast.Call) else None


def _of_both(file: SourceFile, left: ast.expr, right: ast.expr, known: Known) -> bool | None:
    kinds = [_is_tensor(file, each, known) for each in (left, right)]
    return None if None in kinds or all(kinds) else any(kinds)


def _called(file: SourceFile, node: ast.Call, known: Known) -> bool | None:
    name = library(file, node.func)
    short = name.removeprefix("tensorflow.").removeprefix("math.")
    if not name.startswith("tensorflow.") or any(isinstance(each, ast.Starred) for each in node.args):
        return None
    if short == "cast":
        return _cast(file, node, known)
    if node.keywords or not node.args:
        return None
    kinds = [_is_tensor(file, each, known) for each in node.args]
    if short in _OF_ONE and len(kinds) == 1:
        return True if kinds == [True] else None
    if short in _OF_TWO and len(kinds) == 2:
        return True if sorted(map(str, kinds)) == ["False", "True"] else None
    if short == "clip_by_value":
        return True if kinds == [True, False, False] else None
    return None


def _cast(file: SourceFile, node: ast.Call, known: Known) -> bool | None:
    given = [*node.args, *(each.value for each in node.keywords if each.arg == "dtype")]
    if len(given) != 2 or len(node.keywords) > 1:
        return None
    said = given[1].value if isinstance(given[1], ast.Constant) else None
    kind = f"tensorflow.{said}" if isinstance(said, str) else library(file, given[1])
    return True if kind in _TYPES and _is_tensor(file, given[0], known) is True else None

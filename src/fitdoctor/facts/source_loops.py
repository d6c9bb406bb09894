"""Python loops that calculate with their items, one after the other, as the source shows them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor.facts.source_tree import SourceFile

_READS = frozenset(
    {"open", "imread", "imdecode", "read", "read_bytes", "load", "get", "decompress", "decode", "resize", "loads"}
)
"""Calls that do or fetch what no array operation can."""
_OF_MAPPINGS = frozenset({"items", "keys", "values"})
_LOOPS = (ast.For, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def loops_in(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the loops and comprehensions in a function."""
    return (node for node in ast.walk(function) if isinstance(node, _LOOPS))


def calculates(file: SourceFile, loop: ast.AST) -> bool:
    """Tell whether a loop calculates with its items, reads nothing and yields nothing."""
    if any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(loop)):
        return False
    names = {
        each.id
        for target in _targets(loop)
        for each in ast.walk(target)
        if isinstance(each, ast.Name)
    }  # fmt: skip
    # Numbers that count are no items: what they point at is.
    counts = isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and file.resolve(loop.iter.func) == "range"
    found = False
    for node in ast.walk(loop):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in _READS:
                return False
            found = found or (file.resolve(called).startswith("numpy.") and bool(names & _names(node)))
        elif isinstance(node, (ast.BinOp, ast.AugAssign)):
            parts = [each for each in ast.walk(node) if isinstance(each, ast.Subscript)] if counts else [node]
            found = found or any(names & _names(part) for part in parts)
    return found


def over_fields(loop: ast.AST) -> bool:
    """Tell whether a loop goes through a mapping: the few fields of a batch rather than its many items."""
    over = [loop.iter] if isinstance(loop, ast.For) else [each.iter for each in getattr(loop, "generators", ())]
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _OF_MAPPINGS
        for each in over
    )


def _targets(loop: ast.AST) -> list[ast.AST]:
    if isinstance(loop, ast.For):
        return [loop.target]
    return [each.target for each in getattr(loop, "generators", ())]


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}

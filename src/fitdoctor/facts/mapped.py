"""Functions that the source hands to a dataset: what they call, through other functions of the same file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor.facts.source_tree import FoundCall, SourceFile

_TAKES_FUNCTION = frozenset({"map", "flat_map", "interleave"})


def method(call: FoundCall) -> str:
    """Return the name of the method (or function) that is called, without what stands before it."""
    return call.name.rpartition(".")[2]


def upstream(file: SourceFile, call: FoundCall) -> list[FoundCall]:
    """Return the calls that make what a method is called on, innermost first."""
    return [each for each in file.chain(call.node) if each.node is not call.node]


def called_in(file: SourceFile, call: FoundCall) -> set[str]:
    """Return the resolved names of everything that the function given to a map calls."""
    if method(call) not in _TAKES_FUNCTION or not call.node.args:
        return set()
    names: set[str] = set()
    todo: list[ast.AST] = list(_functions(file, call.node.args[0]))
    seen: set[ast.AST] = set()
    while todo:
        body = todo.pop()
        if body in seen:
            continue
        seen.add(body)
        for node in ast.walk(body):
            if isinstance(node, ast.Call):
                names.add(file.resolve(node.func))
                todo.extend(_functions(file, node.func))
    return names


def _functions(file: SourceFile, given: ast.expr) -> Iterator[ast.AST]:
    """Yield what a name stands for: a function of the file, or the expression that was assigned to it."""
    if isinstance(given, ast.Lambda):
        yield given
    name = given.id if isinstance(given, ast.Name) else given.attr if isinstance(given, ast.Attribute) else None
    if name in file.functions:
        yield file.functions[str(name)]
    elif isinstance(given, ast.Name):
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Assign) and any(
                isinstance(each, ast.Name) and each.id == given.id for each in node.targets
            ):
                yield node.value

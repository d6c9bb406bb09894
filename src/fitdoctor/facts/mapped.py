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
    return {file.resolve(node.func) for node in calls_in(file, call)}


def calls_in(file: SourceFile, call: FoundCall) -> list[ast.Call]:
    """Return every call that the function given to a map makes, through other functions of the file."""
    if method(call) not in _TAKES_FUNCTION or not call.node.args:
        return []
    calls: list[ast.Call] = []
    todo: list[ast.AST] = list(functions(file, call.node.args[0]))
    seen: set[ast.AST] = set()
    while todo:
        body = todo.pop()
        if body in seen:
            continue
        seen.add(body)
        for node in ast.walk(body):
            if isinstance(node, ast.Call):
                calls.append(node)
                todo.extend(functions(file, node.func))
    return calls


def functions(file: SourceFile, given: ast.expr) -> Iterator[ast.AST]:
    """Yield what a name stands for: a function of the file, or the expression that was assigned to it."""
    if isinstance(given, ast.Lambda):
        yield given
    name = given.id if isinstance(given, ast.Name) else given.attr if isinstance(given, ast.Attribute) else None
    if name in file.functions:
        yield file.functions[str(name)]
    elif isinstance(given, ast.Name):
        yield from (each.value for each in file.assigned.get(given.id, ()))
    elif isinstance(given, ast.Call) and file.resolve(given.func) == "functools.partial" and given.args:
        yield from functions(file, given.args[0])

"""The one definition of a name: a function that is handed to a dataset, or a number it calculates with."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from dataclasses import dataclass

from fitdoctor.facts.source_tree import SourceFile


@dataclass(frozen=True, eq=False, slots=True)
class Function:
    """What a function does: the names it is given, and its statements, without a docstring."""

    parameters: tuple[str, ...]
    body: tuple[ast.stmt, ...]


def function(file: SourceFile, given: ast.expr) -> Function | None:
    """Return the function that an expression surely stands for; None where it could be another one."""
    if isinstance(given, ast.Lambda):
        return _made(given.args, [ast.Return(given.body)])
    if not isinstance(given, ast.Name) or not is_bound_once(file, given.id):
        return None
    defined = file.functions.get(given.id)
    if isinstance(defined, ast.FunctionDef) and not defined.decorator_list and _is_at_top(file, defined):
        return _made(defined.args, defined.body)
    value = _value(file, given.id)
    return function(file, value) if isinstance(value, ast.Lambda) else None


def _made(arguments: ast.arguments, body: list[ast.stmt]) -> Function | None:
    plain = (*arguments.posonlyargs, *arguments.args)
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
        return None
    first = body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return Function(tuple(each.arg for each in plain), tuple(body[1:] if documented else body))


def number(file: SourceFile, node: ast.expr) -> bool:
    """Tell whether an expression is a number that the source shows: written there, or a name of one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return number(file, node.operand)
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    value = _value(file, node.id) if isinstance(node, ast.Name) and is_bound_once(file, node.id) else None
    return value is not None and not isinstance(value, ast.Name) and number(file, value)


def _value(file: SourceFile, name: str) -> ast.expr | None:
    """Return what the top of the script gives a name that is bound once."""
    found = file.assigned.get(name, [])
    return found[0].value if len(found) == 1 and _is_at_top(file, file.parents[found[0].value]) else None


def _is_at_top(file: SourceFile, statement: ast.AST) -> bool:
    return file.parents.get(statement) is file.tree


def library(file: SourceFile, node: ast.expr) -> str:
    """Return the dotted name of what an imported module has; empty where its name may stand for something else."""
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    imported = isinstance(root, ast.Name) and root.id in file.aliases and root.id not in bindings(file)
    return file.resolve(node) if imported else ""


def stands_for(file: SourceFile, node: ast.expr) -> str:
    """Return the dotted name of what an imported module has, also through a name that the script gives it."""
    named = _value(file, node.id) if isinstance(node, ast.Name) and is_bound_once(file, node.id) else None
    return library(file, named if named is not None else node)


def is_bound_once(file: SourceFile, name: str) -> bool:
    """Tell whether a name means the same wherever it stands in a file."""
    return bindings(file)[name] == 1 and name not in file.aliases and "*" not in file.aliases


@functools.lru_cache(maxsize=4)
def bindings(file: SourceFile) -> Counter[str]:
    """Count what binds each name: assignments, loops, parameters, functions, classes; a `global` counts too."""
    found: Counter[str] = Counter()
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found[node.id] += 1
        elif isinstance(node, ast.arg):
            found[node.arg] += 1
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[node.name] += 1
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found[node.name] += 1
    return found

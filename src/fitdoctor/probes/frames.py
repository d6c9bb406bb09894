"""The source of a running frame: its function, and the loops that the line which runs stands in."""

from __future__ import annotations

import ast
import functools
import linecache
import types
from collections.abc import Iterator

Loop = ast.For | ast.While | ast.AsyncFor


def loops_around(frame: types.FrameType) -> list[Loop]:
    """Return the loops of the frame's own that the line which runs stands in, innermost first."""
    code = frame.f_code
    tree = _tree(code.co_filename)
    if tree is None:
        return []
    found = [
        node
        for node in _own_nodes(_body(tree, code))
        if isinstance(node, Loop) and node.lineno <= frame.f_lineno <= (node.end_lineno or 0)
    ]
    return sorted(found, key=lambda node: -node.lineno)


@functools.lru_cache(maxsize=64)
def _tree(path: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return None


def _body(tree: ast.Module, code: types.CodeType) -> ast.AST:
    """Return the function that a code object was compiled from; the module where it is no function."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first <= code.co_firstlineno <= node.lineno:
                return node
    return tree


def _own_nodes(body: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions inside it."""
    todo = list(ast.iter_child_nodes(body))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)

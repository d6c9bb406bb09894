"""What the source shows of the order in which things are done: in loops, and in the functions that they call."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from fitdoctor.facts.source_tree import Scope, SourceFile

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def runs_after(file: SourceFile, node: ast.expr, others: Sequence[ast.expr]) -> bool:
    """Tell whether something may be done after one of these others: below it, or in the next turn of a loop."""
    places = _places(file, node)
    return any(
        scope is other_scope and (here.lineno > there.lineno or bool(_loops(file, here) & _loops(file, there)))
        for other in others
        for other_scope, there in _places(file, other)
        for scope, here in places
    )


def _places(file: SourceFile, node: ast.expr) -> list[tuple[Scope, ast.expr]]:
    """Return where something is done, and where the functions are called that lead there, each with what is around."""
    found: list[tuple[Scope, ast.expr]] = []
    queue, seen = [node], set[str]()
    while queue:
        here = queue.pop()
        scope = file.scope(here)
        found.append((scope, here))
        if isinstance(scope, _FUNCTIONS) and scope.name not in seen:
            seen.add(scope.name)
            queue += [call.node for call in file.calls_of(scope.name)]
    return found


def _loops(file: SourceFile, node: ast.AST) -> set[ast.AST]:
    return {each for each in file.inside(node) if isinstance(each, _LOOPS)}

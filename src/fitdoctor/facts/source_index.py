"""One walk over a syntax tree, for everybody who asks: nodes by kind, and what stands around each.

The walk takes most of the time of a check, so it visits only fields that can hold nodes with a place in the source.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, TypeVar, cast

Node = TypeVar("Node", bound=ast.AST)

_NO_NODES = frozenset(
    {"ctx", "op", "ops", "id", "attr", "arg", "name", "asname", "module", "level", "kind", "type_comment", "simple"}
    | {"conversion", "is_async", "type_ignores", "rest", "kwd_attrs"}
)
_LEAVES = (ast.Name, ast.Constant, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Pass)
"""Kinds without a node inside that anybody asks for."""
_FIELDS: dict[type, tuple[str, ...]] = dict.fromkeys(_LEAVES, ())


@dataclass(frozen=True, eq=False, slots=True)
class Index:
    """The nodes of a file."""

    by_kind: dict[type, list[ast.AST]]
    """In the order of a walk level by level."""
    parents: dict[ast.AST, ast.AST]

    def nodes(self, kind: type[Node]) -> list[Node]:
        """Return the nodes of just this kind."""
        return cast("list[Node]", self.by_kind.get(kind, []))


def index(tree: ast.Module) -> Index:
    """Walk a tree once."""
    by_kind: dict[type, list[ast.AST]] = {}
    parents: dict[ast.AST, ast.AST] = {}
    level: list[ast.AST] = [tree]
    while level:
        below: list[ast.AST] = []
        for node in level:
            kind = type(node)
            if kind in by_kind:
                by_kind[kind].append(node)
            else:
                by_kind[kind] = [node]
            for field in _FIELDS[kind] if kind in _FIELDS else _fields(kind):
                value: Any = getattr(node, field, None)
                if value.__class__ is list:
                    for child in value:
                        if isinstance(child, ast.AST):
                            parents[child] = node
                            below.append(child)
                elif value is not None and isinstance(value, ast.AST):
                    parents[value] = node
                    below.append(value)
        level = below
    return Index(by_kind, parents)


def _fields(kind: type) -> tuple[str, ...]:
    fields: tuple[str, ...] = tuple(field for field in kind._fields if field not in _NO_NODES)  # type: ignore[attr-defined]
    _FIELDS[kind] = fields
    return fields

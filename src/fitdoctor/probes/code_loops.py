"""Loops of the user's own as the interpreter runs them: which one an instruction stands in, what a line is made of."""

from __future__ import annotations

import ast
import dis
import functools
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fitdoctor.probes import frames

_STATEMENTS = (ast.For, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_OPERATIONS = frozenset({"BINARY_OP", "BINARY_SUBSCR", "BINARY_SLICE", "STORE_SUBSCR", "COMPARE_OP"})
_OWN_FRAMES = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
"""Code of a comprehension with a frame of its own: its loop is found in the frame that calls it."""


@dataclass(frozen=True)
class CodeLoop:
    """A loop or comprehension that makes something, not one that hands out batches."""

    path: str
    symbol: str
    node: Any

    @property
    def line(self) -> int:
        """Where it begins."""
        return int(self.node.lineno)

    def handles_arrays(self, names: Mapping[str, Any]) -> bool:
        """Tell whether its items are NumPy's, or it takes items of arrays by their number; by the variables it sees."""
        targets = {name for target in self._targets() for name in _names(target)}
        if any(_is_numpy(names.get(name)) for name in targets):
            return True
        return any(
            _is_numpy(_value(each.value, names))
            for each in ast.walk(self.node)
            if isinstance(each, ast.Subscript) and targets & _names(each.slice)
        )

    def _targets(self) -> Iterator[ast.AST]:
        if isinstance(self.node, ast.For):
            yield self.node.target
        elif not isinstance(self.node, ast.While):
            yield from (each.target for each in self.node.generators)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _is_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ not in ("str_", "bytes_", "module")


def _value(node: ast.AST, names: Mapping[str, Any]) -> Any:
    """Return what a name or an attribute of one holds, without running any code."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, names), "__dict__", {}).get(node.attr)
    return None


def outermost(stack: list[tuple[types.CodeType, int, int]]) -> CodeLoop | None:
    """Return the outermost loop that a stack (code, line, last instruction; outermost first) stands in."""
    for code, line, last in stack:
        found = loop_at(code, line, last)
        if found is not None:
            return found
    return None


@functools.lru_cache(maxsize=4096)
def loop_at(code: types.CodeType, line: int, last: int) -> CodeLoop | None:
    """Return the outermost loop of a function's own that an instruction stands in."""
    if code.co_name in _OWN_FRAMES:
        return None
    position = _position(code, line, last)
    around = [node for node in _loops(code) if _holds(node, position)]
    if not around:
        return None
    node = min(around, key=lambda each: (each.lineno, each.col_offset))
    return CodeLoop(code.co_filename, code.co_name, node)


@functools.lru_cache(maxsize=256)
def _loops(code: types.CodeType) -> tuple[Any, ...]:
    tree = frames._tree(code.co_filename)
    if tree is None:
        return ()
    nodes = frames._own_nodes(frames._body(tree, code))
    loops = [node for node in nodes if isinstance(node, (*_STATEMENTS, *_COMPREHENSIONS))]
    return tuple(
        node for node in loops if not any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(node))
    )


def _position(code: types.CodeType, line: int, last: int) -> tuple[int, int | None, int, int | None]:
    """Return line and column where an instruction's source begins and ends; columns are None before Python 3.11.

    A jump back to the beginning of a loop has no place in the source: it belongs to what stands before it.
    """
    for place in reversed(range(last // 2 + 1)) if hasattr(code, "co_positions") else ():
        start, end, first, behind = _positions(code)[place]
        if start is not None and end is not None:
            return start, first, end, behind
    return line, None, line, None


@functools.lru_cache(maxsize=256)
def _positions(code: Any) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


def _holds(node: Any, position: tuple[int, int | None, int, int | None]) -> bool:
    start, first, end, behind = position
    if isinstance(node, _STATEMENTS) or first is None or behind is None:
        return bool(node.lineno <= start and end <= node.end_lineno)
    begin, stop = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return bool(begin <= (start, first) and (end, behind) <= stop)


@functools.lru_cache(maxsize=1024)
def made_of(code: types.CodeType) -> Mapping[int, tuple[int, int]]:
    """Return for each line how many instructions it has, and how many of them may work on arrays."""
    found: dict[int, tuple[int, int]] = {}
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        if instruction.starts_line:
            line = _line(instruction)
        instructions, operations = found.get(line, (0, 0))
        operates = instruction.opname in _OPERATIONS or instruction.opname.startswith("CALL")
        found[line] = instructions + 1, operations + operates
    return found


def _line(instruction: Any) -> int:
    number = getattr(instruction, "line_number", None)
    return int(number if number is not None else instruction.starts_line)

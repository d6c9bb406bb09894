"""How many numbers an element of a dataset has, where the source shows it."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass

from fitdoctor.facts.provable.functions import library, number
from fitdoctor.facts.source_tree import SourceFile

_PUBLIC = {
    **dict.fromkeys(("mnist", "fashion_mnist"), 28 * 28),
    **dict.fromkeys(("cifar10", "cifar100"), 32 * 32 * 3),
    "california_housing": 8,
    "boston_housing": 13,
}
"""Data sets that come with Keras: the numbers of one of their samples, beside one label."""
_MADE = frozenset({"numpy.empty", "numpy.ones", "numpy.zeros"})
_MANY = 1_000
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)


def row_size(file: SourceFile, made: ast.Call) -> int | None:
    """Return the numbers of an element of `Dataset.range` or `from_tensor_slices`; None where that is not seen."""
    if file.resolve(made.func) == "tensorflow.data.Dataset.range":
        return 1
    return _Rows(file, file.scope(made)).of(made.args[0]) if len(made.args) == 1 else None


@dataclass(frozen=True, eq=False, slots=True)
class _Rows:
    """What the names of one function stand for."""

    file: SourceFile
    scope: ast.AST
    seen: frozenset[str] = frozenset()

    def of(self, node: ast.expr) -> int | None:
        """Return the numbers in a row of an array; 0 where it is as that of what is being looked at."""
        if isinstance(node, (ast.Tuple, ast.Dict)):
            sizes = [self.of(each) for each in (node.elts if isinstance(node, ast.Tuple) else node.values)]
            return sum(each or 0 for each in sizes) if sizes and None not in sizes else None
        if isinstance(node, ast.Name):
            return self.named(node.id)
        if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC) and number(self.file, node.right):
            return self.of(node.left)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
            return self.of(node.func.value)
        if isinstance(node, ast.Call) and library(self.file, node.func) in _MADE and node.args:
            return _of_shape(self.file, node.args[0])
        return None

    def named(self, name: str) -> int | None:
        """Return the size where everything that binds a name agrees on it; what is made of itself keeps it."""
        if name in self.seen:
            return 0
        inside = _Rows(self.file, self.scope, self.seen | {name})
        given = [each.value for each in self.file.assigned.get(name, ()) if each.scope is self.scope]
        sizes = [inside.of(each) for each in given]
        sizes += [size for node in self.file.nodes(ast.Assign) for size in _loaded(self.file, node, name)]
        known = {each for each in sizes if each}
        return known.pop() if len(known) == 1 and None not in sizes and self.bound(name) == len(sizes) else None

    def bound(self, name: str) -> int:
        """Count what binds a name here; what the source does not show counts for many."""
        found = 0
        for node in ast.walk(self.file.tree):
            if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
                found += self.file.scope(node) is self.scope
            elif isinstance(node, ast.arg) and node.arg == name:
                found += _MANY * (self.file.scope(node) is self.scope)
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                found += _MANY * (name in node.names)
        return found


def _of_shape(file: SourceFile, shape: ast.expr) -> int | None:
    sides = [file.constant(each) for each in (shape.elts if isinstance(shape, ast.Tuple) else [shape])]
    if not sides or any(type(each) is not int for each in sides[1:]):
        return None
    # The first side may be any number; what is one side alone has to be seen to be one.
    return math.prod(sides[1:]) if len(sides) > 1 or type(sides[0]) is int else None


def _loaded(file: SourceFile, node: ast.Assign, name: str) -> list[int]:
    """Return the size of what `(x, y), (a, b) = keras.datasets.mnist.load_data()` gives a name."""
    called = file.resolve(node.value.func) if isinstance(node.value, ast.Call) else ""
    size = _PUBLIC.get(called.removeprefix("keras.datasets.").removesuffix(".load_data"))
    halves = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else []
    if size is None or not called.startswith("keras.datasets.") or not called.endswith(".load_data"):
        return []
    found = []
    for half in halves:
        names = [getattr(each, "id", "") for each in half.elts] if isinstance(half, ast.Tuple) else []
        found += [size if place == 0 else 1 for place, each in enumerate(names) if each == name]
    return found

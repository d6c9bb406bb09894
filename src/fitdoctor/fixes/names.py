"""How a file spells a name: through its own imports, or with one that has to be added."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fitdoctor.fixes.document import CannotEdit

_DOTTED = re.compile(r"\b(?:tensorflow|keras|numpy|torch|jax)(?:\.\w+)+")
_CUSTOMARY = {"numpy": ("import numpy as np", "np"), "tensorflow": ("import tensorflow as tf", "tf")}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def spelled(code: str, text: bytes, line: int | None) -> tuple[str, tuple[str, ...]]:
    """Return code as a file would write it in that line, and the imports it still needs."""
    tree = ast.parse(text.decode("utf-8"))
    known = _visible(tree, line)
    taken = _bound(tree)
    imports: list[str] = []

    def written(match: re.Match[str]) -> str:
        name = match.group()
        found = _through(name, {alias: what for alias, what in known.items() if alias not in taken})
        if found is not None:
            return found
        root, _, rest = name.partition(".")
        statement, alias = _CUSTOMARY.get(root, (f"import {root}", root))
        if alias in taken or alias in known:
            raise CannotEdit(f"the name {alias} stands for something else there")
        imports.append(statement)
        return f"{alias}.{rest}"

    return _DOTTED.sub(written, code), tuple(dict.fromkeys(imports))


def _through(name: str, known: dict[str, str]) -> str | None:
    best: tuple[int, str] | None = None
    # TensorFlow has a Keras of its own, for files that import no other.
    through = {f"{alias}.keras": "keras" for alias, what in known.items() if what == "tensorflow"}
    if not any(what.partition(".")[0] == "keras" for what in known.values()):
        known = known | through
    for alias, what in known.items():
        if name == what or name.startswith(f"{what}."):
            candidate = (len(what), alias + name[len(what) :])
            best = max(best, candidate) if best else candidate
    return best[1] if best else None


def _visible(tree: ast.Module, line: int | None) -> dict[str, str]:
    """Return what the imports bind that a line sees: those of the module and of the functions around it."""
    found: dict[str, str] = {}
    for node in _imports(tree, line):
        if line is not None and node.lineno > line and node.col_offset == 0:
            continue
        if isinstance(node, ast.Import):
            for each in node.names:
                root = each.name.split(".")[0]
                found[each.asname or root] = _canonical(each.name if each.asname else root)
        elif node.module and not node.level:
            found.update({each.asname or each.name: _canonical(f"{node.module}.{each.name}") for each in node.names})
    return found


def _imports(node: ast.AST, line: int | None) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif isinstance(child, _FUNCTIONS):
            if line is not None and child.lineno <= line <= (child.end_lineno or child.lineno):
                yield from _imports(child, line)
        elif not isinstance(child, ast.ClassDef) and not _for_types_alone(child):
            yield from _imports(child, line)


def _for_types_alone(node: ast.AST) -> bool:
    """Tell `if TYPE_CHECKING:`, whose imports are not there when it runs."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _bound(tree: ast.Module) -> set[str]:
    """Return the names that something else than an import binds, anywhere."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return names | {node.name for node in ast.walk(tree) if isinstance(node, (*_FUNCTIONS[:2], ast.ClassDef))}


def _canonical(name: str) -> str:
    return name.replace("tensorflow.keras", "keras", 1) if name.startswith("tensorflow.keras") else name

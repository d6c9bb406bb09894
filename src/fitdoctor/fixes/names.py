"""How a file spells a name: through its own imports, or with one that has to be added."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fitdoctor.fixes.document import CannotEdit

_DOTTED = re.compile(r"\b(?:tensorflow|keras|numpy|torch|jax)(?:\.\w+)+")
_CUSTOMARY = {"numpy": ("import numpy as np", "np"), "tensorflow": ("import tensorflow as tf", "tf")}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class _Imported:
    """A name that an import binds, as far as a line can see it."""

    alias: str
    what: str
    sure: bool
    """Whether it is there when the line runs."""
    local: bool
    """Whether a function binds it: an import at the top of the file does not change what it means there."""


def spelled(code: str, text: bytes, line: int) -> tuple[str, tuple[str, ...]]:
    """Return code as a file would write it in that line, and the imports it still needs."""
    tree = ast.parse(text.decode("utf-8"))
    found = list(_imports(tree.body, line, sure=True, local=False))
    taken = _bound(tree) | {each.alias for each in found for other in found if _differ(each, other)}
    later = {each.alias for each in found if each.local and not each.sure}
    later -= {each.alias for each in found if each.local and each.sure}
    known = {each.alias: each.what for each in found if each.sure and each.alias not in taken | later}
    imports: list[str] = []

    def written(match: re.Match[str]) -> str:
        name = match.group()
        through = _through(name, known)
        if through is not None:
            return through
        root, _, rest = name.partition(".")
        statement, alias = _CUSTOMARY.get(root, (f"import {root}", root))
        others = [each for each in found if each.alias == alias]
        if alias in taken or any(each.what != root for each in others):
            raise CannotEdit(f"the name {alias} stands for something else there")
        if alias in later:
            raise CannotEdit(f"the name {alias} is not there yet: it is imported further down")
        imports.append(statement)
        return f"{alias}.{rest}"

    return _DOTTED.sub(written, code), tuple(dict.fromkeys(imports))


def _differ(one: _Imported, other: _Imported) -> bool:
    return one.alias == other.alias and one.what != other.what


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


def _imports(body: Sequence[ast.stmt], line: int, *, sure: bool, local: bool) -> Iterator[_Imported]:
    """Yield what the imports bind of the module and of the functions around a line."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias, what in _names(node):
                yield _Imported(alias, what, sure and node.lineno <= line, local)
        elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            # What a decorator or a default sees is what stands outside.
            if _holds(node.body, line):
                inside = [each for each in node.body if isinstance(each, _FUNCTIONS)]
                of_class = isinstance(node, ast.ClassDef)
                yield from _imports(inside if of_class else node.body, line, sure=True, local=local or not of_class)
        elif not _for_types_alone(node):
            yield from _in_branches(node, line, sure=sure, local=local)


def _in_branches(node: ast.stmt, line: int, *, sure: bool, local: bool) -> Iterator[_Imported]:
    """Yield what a compound statement imports: for sure where all its branches do, or the line stands in that one."""
    branches = _branches(node)
    always = isinstance(node, (ast.Try, ast.With, ast.AsyncWith))
    found = [list(_imports(each, line, sure=sure, local=local)) for each in branches]
    in_all = isinstance(node, ast.If) and all(branches)
    for branch, names in zip(branches, found, strict=True):
        for each in names:
            here = always or _holds(branch, line) or (in_all and all(each in other for other in found))
            yield replace(each, sure=each.sure and here)


def _branches(node: ast.stmt) -> list[list[ast.stmt]]:
    branches = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    return branches + [each.body for name in ("handlers", "cases") for each in getattr(node, name, ())]


def _holds(body: Sequence[ast.stmt], line: int) -> bool:
    return bool(body) and body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)


def _names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    for each in node.names:
        if isinstance(node, ast.Import):
            root = each.name.split(".")[0]
            yield each.asname or root, _canonical(each.name if each.asname else root)
        else:
            # What a package of the user's own calls by that name may be anything.
            module = "." * node.level + (node.module or "")
            yield each.asname or each.name, _canonical(f"{module}.{each.name}")


def _for_types_alone(node: ast.AST) -> bool:
    """Tell `if TYPE_CHECKING:`, whose imports are not there when it runs."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _bound(tree: ast.Module) -> set[str]:
    """Return the names that something else than an import binds, anywhere."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    named = (*_FUNCTIONS, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
    return names | {node.name for node in ast.walk(tree) if isinstance(node, named) and node.name}


def _canonical(name: str) -> str:
    for prefix in ("tensorflow.keras", "tf_keras"):
        if name == prefix or name.startswith(f"{prefix}."):
            return f"keras{name[len(prefix) :]}"
    return name

"""The user's own source code: names resolved through imports, datasets followed through variables."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fitdoctor.errors import MissingEvidence
from fitdoctor.model import Capture, Gap, Site

_COMPILERS = ("tensorflow.function", "jax.jit")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, eq=False)
class FoundCall:
    """A call in the source, with the name it resolves to."""

    file: SourceFile
    node: ast.Call
    name: str
    """Dotted, through import aliases: `tensorflow.py_function`; for a method of an unknown object `.fit`."""

    @property
    def site(self) -> Site:
        """Where its name stands: in a chain over several lines, the line of this very method."""
        here = self.file.site(self.node)
        return replace(here, line=self.node.func.end_lineno or here.line)

    def keyword(self, name: str) -> ast.expr | None:
        """Return a keyword argument."""
        return next((each.value for each in self.node.keywords if each.arg == name), None)

    def argument(self, index: int, name: str) -> ast.expr | None:
        """Return an argument given by position or by name."""
        return self.node.args[index] if index < len(self.node.args) else self.keyword(name)


@dataclass(frozen=True, eq=False)
class SourceFile:
    """One file, parsed when first looked at."""

    path: str
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; empty where the file does not parse (it cannot have run either)."""
        try:
            # As bytes: a byte order mark and a declared encoding are Python's to understand.
            return ast.parse(self.text.encode("utf-8", "surrogateescape"))
        except (SyntaxError, ValueError):
            return ast.Module(body=[], type_ignores=[])

    @functools.cached_property
    def aliases(self) -> dict[str, str]:
        """What each imported name stands for."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    found[each.asname or each.name.split(".")[0]] = (
                        each.name if each.asname else each.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.update({each.asname or each.name: f"{node.module}.{each.name}" for each in node.names})
        return found

    @functools.cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node around each node."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @functools.cached_property
    def functions(self) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
        """Functions and methods by name; the last definition wins, as in Python."""
        return {node.name: node for node in ast.walk(self.tree) if isinstance(node, _FUNCTIONS)}

    @functools.cached_property
    def _assigned(self) -> dict[str, list[tuple[ast.AST | None, int, ast.expr]]]:
        found: dict[str, list[tuple[ast.AST | None, int, ast.expr]]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign):
                targets, value = node.targets, node.value
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                targets, value = [node.target], node.value
            else:
                continue
            for target in targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append((self.scope(node), target.lineno, value))
        return found

    def site(self, node: ast.AST, symbol: str | None = None) -> Site:
        """Return where a node stands; `symbol` is by default the function around it."""
        around = self.scope(node)
        name = symbol or getattr(around, "name", None)
        return Site(self.path, getattr(node, "lineno", 1), getattr(node, "end_lineno", None), name)

    def scope(self, node: ast.AST) -> Scope:
        """Return the function (or module) around a node."""
        here: ast.AST | None = self.parents.get(node)
        while here is not None and not isinstance(here, (*_FUNCTIONS, ast.Lambda, ast.Module)):
            here = self.parents.get(here)
        return here if isinstance(here, (*_FUNCTIONS, ast.Lambda)) else self.tree

    def inside(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around a node, innermost first."""
        here = self.parents.get(node)
        while here is not None:
            yield here
            here = self.parents.get(here)

    @functools.cached_property
    def compiled_functions(self) -> frozenset[str]:
        """Names of functions that are compiled, or called from one that is."""
        names: set[str] = set()
        for function in self.functions.values():
            for decorator in function.decorator_list:
                target = decorator.func if isinstance(decorator, ast.Call) else decorator
                if self.resolve(target) in _COMPILERS or (
                    isinstance(decorator, ast.Call) and any(self.resolve(each) in _COMPILERS for each in decorator.args)
                ):
                    names.add(function.name)
        for call in self.calls(*_COMPILERS):
            names.update(each.id for each in call.node.args if isinstance(each, ast.Name))
        queue = list(names)
        while queue:
            body = self.functions.get(queue.pop())
            for node in ast.walk(body) if body is not None else ():
                called = node.func if isinstance(node, ast.Call) else None
                name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", None)
                if name in self.functions and name not in names:
                    names.add(str(name))
                    queue.append(str(name))
        return frozenset(names)

    def is_compiled(self, node: ast.AST) -> bool:
        """Tell whether a node stands in a function that is compiled."""
        return any(isinstance(each, _FUNCTIONS) and each.name in self.compiled_functions for each in self.inside(node))

    def resolve(self, node: ast.AST) -> str:
        """Return the dotted name of an expression, imports resolved; `.name` for a method of an object."""
        if isinstance(node, ast.Name):
            return _canonical(self.aliases.get(node.id, node.id))
        if isinstance(node, ast.Attribute):
            before = self.resolve(node.value) if isinstance(node.value, (ast.Name, ast.Attribute)) else ""
            known = isinstance(node.value, (ast.Name, ast.Attribute)) and self._imported(node.value)
            return _canonical(f"{before}.{node.attr}" if known else f".{node.attr}")
        return ""

    def _imported(self, node: ast.AST) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.aliases

    def calls(self, *names: str) -> Iterator[FoundCall]:
        """Yield the calls (of these resolved names), in the order of the source."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        for node in sorted(nodes, key=lambda each: (each.lineno, each.col_offset)):
            name = self.resolve(node.func)
            if not names or name in names:
                yield FoundCall(self, node, name)

    def chain(self, expression: ast.expr) -> list[FoundCall]:
        """Return the calls that make an object, innermost first, through variables and local functions."""
        calls: list[FoundCall] = []
        here: ast.expr | None = expression
        seen: set[int] = set()
        while here is not None and id(here) not in seen:
            seen.add(id(here))
            if isinstance(here, ast.Name):
                here = self._value_of(here)
            elif isinstance(here, ast.Call):
                made = self._returned(here)
                if made is not None:
                    here = made
                    continue
                calls.append(FoundCall(self, here, self.resolve(here.func)))
                here = here.func.value if isinstance(here.func, ast.Attribute) else None
            else:
                here = None
        return calls[::-1]

    def _value_of(self, name: ast.Name) -> ast.expr | None:
        """Return what was last assigned to a variable before this use, in its own scope or around it."""
        scopes: list[ast.AST] = [self.scope(name), self.tree]
        for scope in scopes:
            before = [
                (line, value)
                for where, line, value in self._assigned.get(name.id, ())
                if where is scope and line < name.lineno + (scope is not scopes[0])
            ]
            if before:
                return max(before, key=lambda each: each[0])[1]
        return None

    def _returned(self, call: ast.Call) -> ast.expr | None:
        if not isinstance(call.func, ast.Name) or call.func.id in self.aliases:
            return None
        function = self.functions.get(call.func.id)
        returns = [
            node.value
            for node in (ast.walk(function) if function is not None else ())
            if isinstance(node, ast.Return) and node.value is not None
        ]
        return returns[-1] if returns else None


@dataclass(frozen=True, eq=False)
class SourceTree:
    """All of the user's files that took part in the run."""

    files: tuple[SourceFile, ...]

    def calls(self, *names: str) -> Iterator[FoundCall]:
        """Yield the calls of these resolved names in all files."""
        for file in self.files:
            yield from file.calls(*names)

    def compile_calls(self) -> Iterator[FoundCall]:
        """Yield the calls of a model's `compile`: of a method of that name with an optimizer or a loss."""
        for call in self.calls():
            method = isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "compile"
            said = call.node.args or call.keyword("optimizer") is not None or call.keyword("loss") is not None
            if method and said and call.name not in ("re.compile", "torch.compile"):
                yield call


def establish(capture: Capture) -> SourceTree:
    """Take the sources out of the capture."""
    files = tuple(SourceFile(each.path, each.text) for each in capture.sources if each.text is not None)
    if not files:
        reason = "their text was left out on request" if capture.sources else "no file of the user's own was seen"
        raise MissingEvidence(Gap("the script's source", reason, "run again without redaction"))
    return SourceTree(files)


def _canonical(name: str) -> str:
    """Give one thing one name: tf.keras is keras."""
    for prefix, short in (
        ("tensorflow.keras", "keras"),
        ("tensorflow.python.keras", "keras"),
        ("tensorflow.compat.v2", "tensorflow"),
    ):
        if name == prefix or name.startswith(prefix + "."):
            return short + name[len(prefix) :]
    return name

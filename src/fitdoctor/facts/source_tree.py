"""The user's own source code: names resolved through imports, datasets followed through variables."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.source_index import Index, Node, index
from fitdoctor.model import Capture, Gap, Site

_COMPILERS = ("tensorflow.function", "jax.jit")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a file is not Python."""

    line: int
    reason: str


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
    given: Mapping[str, str] = field(default_factory=dict)
    """What names stand for that it imports from other files of the user's own."""

    @functools.cached_property
    def _parsed(self) -> tuple[ast.Module, Fault | None]:
        try:
            return ast.parse(self.text), None
        except SyntaxError as error:
            fault = Fault(error.lineno or 1, error.msg)
        except (ValueError, RecursionError, MemoryError) as error:  # null bytes, or nested too deep for Python itself
            fault = Fault(1, str(error) or "it is nested too deeply for Python to parse")
        return ast.Module(body=[], type_ignores=[]), fault

    @property
    def tree(self) -> ast.Module:
        """The syntax tree; empty where the file does not parse (it cannot have run either)."""
        return self._parsed[0]

    @property
    def fault(self) -> Fault | None:
        """Why the file does not parse, if it does not."""
        return self._parsed[1]

    @functools.cached_property
    def _index(self) -> Index:
        return index(self.tree)

    @functools.cached_property
    def aliases(self) -> dict[str, str]:
        """What each imported name stands for."""
        found: dict[str, str] = dict(self.given)
        for node in self._index.nodes(ast.Import):
            for each in node.names:
                found[each.asname or each.name.split(".")[0]] = each.name if each.asname else each.name.split(".")[0]
        for taken in self._index.nodes(ast.ImportFrom):
            if taken.module and not taken.level:
                found.update({each.asname or each.name: f"{taken.module}.{each.name}" for each in taken.names})
        return found

    @property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node around each node."""
        return self._index.parents

    @functools.cached_property
    def functions(self) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
        """Functions and methods by name; the last definition wins, as in Python."""
        found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        found.update({node.name: node for node in self._index.nodes(ast.FunctionDef)})
        found.update({node.name: node for node in self._index.nodes(ast.AsyncFunctionDef)})
        return found

    def nodes(self, *kinds: type[Node]) -> list[Node]:
        """Return all nodes of these kinds, in the order of the source."""
        found = [node for kind in kinds for node in self._index.nodes(kind)]
        return sorted(found, key=_position)

    @functools.cached_property
    def _assigned(self) -> dict[str, list[tuple[ast.AST | None, int, ast.expr]]]:
        found: dict[str, list[tuple[ast.AST | None, int, ast.expr]]] = {}
        for node in self.nodes(ast.Assign, ast.AnnAssign, ast.NamedExpr):
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
        if not names:
            yield from (FoundCall(self, node, self.resolve(node.func)) for node in self.nodes(ast.Call))
            return
        for call in self.calls_of(*{name.rpartition(".")[2] for name in names}):
            if call.name in names:
                yield call

    def calls_of(self, *methods: str) -> Iterator[FoundCall]:
        """Yield the calls of these names, whatever stands before the last dot, in the order of the source."""
        nodes = [node for method in methods for node in self._called.get(method, ())]
        for node in sorted(nodes, key=_position):
            yield FoundCall(self, node, self.resolve(node.func))

    def calls_with(self, keyword: str) -> Iterator[FoundCall]:
        """Yield the calls that are given this keyword, in the order of the source."""
        for node in self._given_by_name.get(keyword, ()):
            yield FoundCall(self, node, self.resolve(node.func))

    @functools.cached_property
    def _called(self) -> dict[str, list[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for node in self._index.nodes(ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute):
                found.setdefault(function.attr, []).append(node)
            elif isinstance(function, ast.Name):
                name = self.aliases.get(function.id, function.id)
                found.setdefault(name.rpartition(".")[2], []).append(node)
        return found

    @functools.cached_property
    def _given_by_name(self) -> dict[str, list[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for node in self.nodes(ast.Call):
            for each in node.keywords:
                if each.arg is not None:
                    found.setdefault(each.arg, []).append(node)
        return found

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
        for call in (call for file in self.files for call in file.calls_of("compile")):
            method = isinstance(call.node.func, ast.Attribute)
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


def _position(node: ast.AST) -> tuple[int, int]:
    return (node.lineno, node.col_offset)  # type: ignore[attr-defined]

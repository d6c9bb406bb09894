"""The user's own source code: names resolved through imports, datasets followed through variables."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import source_flow
from fitdoctor.facts.source_flow import Assigned
from fitdoctor.facts.source_index import Index, Node, index
from fitdoctor.model import Capture, Gap, Site

_COMPILERS = ("tensorflow.function", "jax.jit")
_TRAINS = ("fit", "fit_generator", "train_on_batch", "apply_gradients", "stateless_apply", "backward")
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
    """What names stand for that it imports from other files of the user's own, as `name` or as `module.name`."""

    @functools.cached_property
    def _parsed(self) -> tuple[ast.Module, Fault | None]:
        try:
            # As bytes: a byte order mark and a declared encoding are Python's to understand.
            return ast.parse(self.text.encode("utf-8", "surrogateescape")), None
        except SyntaxError as error:
            fault = Fault(error.lineno or 1, error.msg)
        except (ValueError, RecursionError, MemoryError) as error:  # null bytes, or nested too deep for Python itself
            fault = Fault(
                1, str(error) if isinstance(error, ValueError) else "it is nested too deeply for Python to parse"
            )
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
        found: dict[str, str] = {}
        for node in self._index.nodes(ast.Import):
            for each in node.names:
                found[each.asname or each.name.split(".")[0]] = each.name if each.asname else each.name.split(".")[0]
        for taken in self._index.nodes(ast.ImportFrom):
            if taken.module and not taken.level:
                found.update({each.asname or each.name: f"{taken.module}.{each.name}" for each in taken.names})
        return {**found, **self.given}

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

    @property
    def loops(self) -> list[ast.For | ast.While]:
        """All loops, in the order of the source."""
        found: list[ast.For | ast.While] = [*self._index.nodes(ast.For), *self._index.nodes(ast.While)]
        return sorted(found, key=_position)

    def nodes(self, *kinds: type[Node]) -> list[Node]:
        """Return all nodes of these kinds, in the order of the source."""
        found = [node for kind in kinds for node in self._index.nodes(kind)]
        return sorted(found, key=_position)

    @functools.cached_property
    def assigned(self) -> dict[str, list[Assigned]]:
        """What is assigned to each variable and, as `self.name`, to each attribute."""
        return source_flow.assigned(self)

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
        names = {function.name for function in self.functions.values() if self._is_decorated(function)}
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
        return any(
            isinstance(each, _FUNCTIONS) and (each.name in self.compiled_functions or self._is_decorated(each))
            for each in self.inside(node)
        )

    def _is_decorated(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        for decorator in function.decorator_list:
            options = [decorator.func, *decorator.args] if isinstance(decorator, ast.Call) else [decorator]
            if any(self.resolve(each) in _COMPILERS for each in options):
                return True
        return False

    def resolve(self, node: ast.AST) -> str:
        """Return the dotted name of an expression, imports resolved; `.name` for a method of an object."""
        if isinstance(node, ast.Name):
            return _canonical(self.aliases.get(node.id, node.id))
        if isinstance(node, ast.Attribute):
            before = self.resolve(node.value) if isinstance(node.value, (ast.Name, ast.Attribute)) else ""
            known = isinstance(node.value, (ast.Name, ast.Attribute)) and self._imported(node.value)
            whole = f"{before}.{node.attr}" if known else f".{node.attr}"
            return _canonical(self.given.get(whole, whole))
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
        for node in sorted(self._given_by_name.get(keyword, ()), key=_position):
            yield FoundCall(self, node, self.resolve(node.func))

    @functools.cached_property
    def _called(self) -> dict[str, list[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for node in self._index.nodes(ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute):
                name = self.resolve(function) if self.given else function.attr
                found.setdefault(name.rpartition(".")[2], []).append(node)
            elif isinstance(function, ast.Name):
                name = self.aliases.get(function.id, function.id)
                found.setdefault(name.rpartition(".")[2], []).append(node)
        return found

    @functools.cached_property
    def _given_by_name(self) -> dict[str, list[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for node in self._index.nodes(ast.Call):
            for each in node.keywords:
                if each.arg is not None:
                    found.setdefault(each.arg, []).append(node)
        return found

    def chain(self, expression: ast.expr) -> list[FoundCall]:
        """Return the calls that make an object, innermost first, through variables, attributes and functions."""
        nodes = source_flow.chain(self, expression)
        return [FoundCall(self, node, self.resolve(node.func)) for node in nodes]

    def constant(self, expression: ast.expr | None) -> Any:
        """Return the constant that an expression stands for, through variables; None where it is none."""
        return source_flow.constant(self, expression)

    def bases(self, node: ast.ClassDef) -> set[str]:
        """Return the resolved names of a class's bases, and of theirs in the same file."""
        names: set[str] = set()
        queue = [node]
        while queue:
            for base in queue.pop().bases:
                name = self.resolve(base)
                if name not in names:
                    names.add(name)
                    queue += [self.classes[name]] if name in self.classes else []
        return names

    @functools.cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Classes by name."""
        return {node.name: node for node in self._index.nodes(ast.ClassDef)}

    @functools.cached_property
    def trains(self) -> bool:
        """Whether it calls what trains a model."""
        return any(isinstance(call.node.func, ast.Attribute) for call in self.calls_of(*_TRAINS))

    def repeats(self, node: ast.AST) -> bool:
        """Tell whether a node is run again and again: in a loop, or in a function that a loop of the file calls."""
        seen: set[str] = set()
        queue = [node]
        while queue:
            here = queue.pop()
            for around in self.inside(here):
                if isinstance(around, (ast.For, ast.AsyncFor, ast.While)):
                    return True
                if isinstance(around, _FUNCTIONS):
                    if around.name not in seen:
                        seen.add(around.name)
                        queue += [call.node for call in self.calls_of(around.name) if is_own(call.node.func)]
                    break
        return False


@dataclass(frozen=True, eq=False)
class SourceTree:
    """All of the user's files that took part in the run."""

    files: tuple[SourceFile, ...]
    ran: bool = True
    """Whether they took part in a run: then it is known that they train, and what they leave open is measured."""

    @property
    def trains(self) -> bool:
        """Whether anything is trained with them, as far as can be known."""
        return self.ran or any(file.trains for file in self.files)

    def calls(self, *names: str) -> Iterator[FoundCall]:
        """Yield the calls of these resolved names in all files."""
        for file in self.files:
            yield from file.calls(*names)

    def calls_of(self, *methods: str) -> Iterator[FoundCall]:
        """Yield the calls of these names, whatever stands before the last dot, in all files."""
        for file in self.files:
            yield from file.calls_of(*methods)

    def compile_calls(self) -> Iterator[FoundCall]:
        """Yield the calls of a model's `compile`: of a method of that name with an optimizer or a loss."""
        for call in self.calls_of("compile"):
            method = isinstance(call.node.func, ast.Attribute)
            said = call.node.args or call.keyword("optimizer") is not None or call.keyword("loss") is not None
            if method and said and call.name not in ("re.compile", "regex.compile", "torch.compile"):
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
        ("tf_keras", "keras"),
    ):
        if name == prefix or name.startswith(prefix + "."):
            return short + name[len(prefix) :]
    return name


def is_own(function: ast.expr) -> bool:
    """Tell whether a call is one of a plain function or of a method of `self`."""
    if isinstance(function, ast.Attribute):
        return isinstance(function.value, ast.Name) and function.value.id == "self"
    return isinstance(function, ast.Name)


def _position(node: ast.AST) -> tuple[int, int]:
    return (node.lineno, node.col_offset)  # type: ignore[attr-defined]

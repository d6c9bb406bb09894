"""Where a value in the source comes from: through variables, attributes of `self`, parameters and functions."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fitdoctor.facts.source_tree import SourceFile

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LONGEST = 200
"""Steps of a chain: more of them go in circles."""


@dataclass(frozen=True, eq=False, slots=True)
class Assigned:
    """One assignment to a name."""

    scope: ast.AST
    line: int
    value: ast.expr


def assigned(file: SourceFile) -> dict[str, list[Assigned]]:
    """Return what is assigned to each variable and, as `self.name`, to each attribute."""
    found: dict[str, list[Assigned]] = {}
    for node in file.nodes(ast.Assign, ast.AnnAssign, ast.NamedExpr):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore[attr-defined]
        value: ast.expr | None = node.value  # type: ignore[attr-defined]
        if value is None:
            continue
        for target in targets:
            name = _own(target) or (target.id if isinstance(target, ast.Name) else None)
            if name is not None:
                found.setdefault(name, []).append(Assigned(file.scope(node), target.lineno, value))
    return found


def chain(file: SourceFile, expression: ast.expr) -> list[ast.Call]:
    """Return the calls that make an object, innermost first."""
    calls: list[ast.Call] = []
    entered: dict[ast.AST, ast.Call] = {}
    here: ast.expr | None = expression
    seen: set[int] = set()
    while here is not None and id(here) not in seen and len(seen) < _LONGEST:
        seen.add(id(here))
        if isinstance(here, ast.Name):
            here = _value_of(file, here) or _argument(file, here, entered)
        elif isinstance(here, ast.Attribute):
            here = _attribute(file, here)
        elif isinstance(here, ast.Call):
            function = _own_function(file, here)
            made = _returned(file, function)
            if function is not None and made is not None:
                entered[function] = here
                here = made
                continue
            calls.append(here)
            here = here.func.value if isinstance(here.func, ast.Attribute) else None
        else:
            here = None
    return calls[::-1]


def constant(file: SourceFile, expression: ast.expr | None) -> Any:
    """Return the constant that an expression stands for; None where it is none, or where it may be several."""
    for _ in range(8):
        if isinstance(expression, ast.Constant):
            return expression.value
        if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub):
            value = constant(file, expression.operand)
            return -value if isinstance(value, (int, float)) else None
        if isinstance(expression, ast.Name):
            expression = _value_of(file, expression)
        elif isinstance(expression, ast.Attribute):
            expression = _attribute(file, expression)
        else:
            return None
    return None


def _own(node: ast.expr) -> str | None:
    """Return `self.name` for an attribute of `self`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return f"self.{node.attr}"
    return None


def _value_of(file: SourceFile, name: ast.Name) -> ast.expr | None:
    """Return what was last assigned to a variable before this use, in its own scope or around it."""
    known = file.assigned.get(name.id, ())
    scope = file.scope(name) if known else file.tree
    while known:
        here = [each for each in known if each.scope is scope]
        before = [each for each in here if each.line < name.lineno]
        if before or (here and scope is not file.scope(name)):
            return max(before or here, key=lambda each: each.line).value
        if scope is file.tree or name.id in _parameters(scope):
            return None
        scope = file.scope(scope)
    return None


def _parameters(scope: ast.AST) -> set[str]:
    given = getattr(scope, "args", None)
    return {each.arg for each in ast.walk(given) if isinstance(each, ast.arg)} if given is not None else set()


def _attribute(file: SourceFile, node: ast.Attribute) -> ast.expr | None:
    """Return what is assigned to an attribute of `self`, where that happens once only."""
    values = file.assigned.get(_own(node) or "", ())
    return values[0].value if len(values) == 1 else None


def _argument(file: SourceFile, name: ast.Name, entered: dict[ast.AST, ast.Call]) -> ast.expr | None:
    """Return what a parameter is given: by the call that led here, or by the only call of its function in the file."""
    function = file.scope(name)
    if not isinstance(function, _FUNCTIONS):
        return None
    call = entered.get(function)
    if call is None:
        calls = [each.node for each in file.calls_of(function.name)]
        call = calls[0] if len(calls) == 1 else None
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    if call is None or name.id not in (*names, *(each.arg for each in function.args.kwonlyargs)):
        return None
    for each in call.keywords:
        if each.arg == name.id:
            return each.value
    bound = names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute)
    place = names.index(name.id) - bound if name.id in names else -1
    if 0 <= place < len(call.args) and not any(isinstance(each, ast.Starred) for each in call.args):
        return call.args[place]
    return None


def _own_function(file: SourceFile, call: ast.Call) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the function of the file that is called, also as a method of `self`."""
    if isinstance(call.func, ast.Name) and call.func.id not in file.aliases:
        return file.functions.get(call.func.id)
    if isinstance(call.func, ast.Attribute) and _own(call.func):
        return file.functions.get(call.func.attr)
    return None


def _returned(file: SourceFile, function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> ast.expr | None:
    """Return what a function returns last, without the functions inside it."""
    returns = [
        node.value
        for node in (ast.walk(function) if function is not None else ())
        if isinstance(node, ast.Return) and node.value is not None and file.scope(node) is function
    ]
    return returns[-1] if returns else None

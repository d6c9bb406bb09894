"""Whether the calls that make a dataset are all that there is to it: one after the other, in one function."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from fitdoctor.facts.source_tree import FoundCall

_TURNS = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp,
    ast.DictComp, ast.GeneratorExp, ast.ClassDef,
)  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_straight(calls: Sequence[FoundCall]) -> bool:
    """Tell whether these calls are made once each, unconditionally, in one function or at the top of the script."""
    scopes = {call.file.scope(call.node) for call in calls}
    return len(scopes) == 1 and not any(_turns(call) for call in calls)


def _turns(call: FoundCall) -> bool:
    """Tell whether something around a call, in its own function, may skip or repeat it."""
    for around in call.file.inside(call.node):
        if isinstance(around, _FUNCTIONS):
            return False
        if isinstance(around, _TURNS) and not _is_main(around):
            return True
    return False


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).startswith("__name__ == ") and not node.orelse

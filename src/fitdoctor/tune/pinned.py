"""Whether a script can only run on the Keras backend that it names itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TypeGuard

NEUTRAL = {"tensorflow": ("data",), "torch": ("utils",)}
"""Parts of a framework that Keras takes data from whatever the backend is."""
FRAMEWORKS = ("tensorflow", "torch", "jax")


def why(sources: Mapping[str, str | None]) -> str:
    """Return what in the user's files asks for one backend; nothing where nothing does."""
    for path, text in sources.items():
        try:
            tree = ast.parse(text or "")
        except (SyntaxError, ValueError):
            continue
        for line, reason in _reasons(tree):
            name = path.replace("\\", "/").rpartition("/")[2]
            return f"{reason} ({name}:{line})"
    return ""


def _reasons(tree: ast.Module) -> Iterator[tuple[int, str]]:
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if _chooses(node):
            yield node.lineno, "the script chooses its backend itself"
        elif isinstance(node, ast.Import):
            for each in node.names:
                first, _, rest = each.name.partition(".")
                if first in FRAMEWORKS:
                    if rest and each.asname and rest.split(".")[0] not in NEUTRAL.get(first, ()):
                        yield node.lineno, f"it calls {first} by name"
                    aliases[each.asname or first] = "" if rest and each.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            first, _, rest = node.module.partition(".")
            wanted = [rest.split(".")[0]] if rest else [each.name for each in node.names]
            if first in FRAMEWORKS and any(each not in NEUTRAL.get(first, ()) for each in wanted):
                yield node.lineno, f"it calls {first} by name"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            framework = aliases.get(node.value.id)
            if framework and node.attr not in NEUTRAL.get(framework, ()):
                yield node.lineno, f"it calls {framework} by name"


def _chooses(node: ast.AST) -> TypeGuard[ast.expr]:
    named = isinstance(node, ast.Constant) and node.value == "KERAS_BACKEND"
    return named or (isinstance(node, ast.Attribute) and node.attr == "set_backend")

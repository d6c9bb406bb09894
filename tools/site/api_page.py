"""The public names and what they return, read from the source: nothing is imported for it, and no framework needed."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import fitdoctor

HOMES = ("api.py", "model.py", "rewrites/optimized.py")
"""The modules that hold them."""
Node = ast.FunctionDef | ast.ClassDef


def page(package: Path) -> str:
    """Write the reference."""
    known = definitions(package)
    public = [name for name in fitdoctor.__all__ if not name.startswith("_")]
    first = sorted(public, key=lambda name: (isinstance(known[name], ast.ClassDef), name.lower()))
    parts = [
        "# Python",
        "`import fitdoctor` imports no framework; each name below is loaded when it is first used. "
        "`fitdoctor.__version__` is the version.",
        *(described(known[name], prefix="fitdoctor.") for name in first),
        "# What they return",
        *(described(known[name]) for name in reached(public, known)),
    ]
    return "\n\n".join(parts).replace("\n# What they return", "\n---\n\n## What they return") + "\n"


def definitions(package: Path) -> dict[str, Node]:
    """Return every class and function of these modules, by name, and public names wherever they are defined."""
    found: dict[str, Node] = {}
    homes = [package / home for home in HOMES]
    for path in [*homes, *sorted(set(package.rglob("*.py")) - set(homes))]:
        missing = set(fitdoctor.__all__) - set(found)
        if path not in homes and not missing - {"__version__"}:
            break
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):  # what stands outermost comes first
            if isinstance(node, Node) and (node.name in missing or path in homes) and node.name[0] != "_":
                found.setdefault(node.name, node)
    return found


def reached(public: list[str], known: dict[str, Node]) -> list[str]:
    """Return the classes that signatures and fields of the public names speak of, in the order they are met."""
    order: list[str] = []
    waiting = list(public)
    while waiting:
        for name in spoken_of(known[waiting.pop(0)]):
            if isinstance(known.get(name), ast.ClassDef) and name not in order and name not in public:
                order.append(name)
                waiting.append(name)
    return order


def spoken_of(node: Node) -> Iterator[str]:
    """Yield the names in annotations."""
    if isinstance(node, ast.FunctionDef):
        found = [node.returns, *(each.annotation for each in (*node.args.args, *node.args.kwonlyargs))]
    else:
        found = [each.annotation for each in node.body if isinstance(each, ast.AnnAssign)]
        found += [each.returns for each in node.body if isinstance(each, ast.FunctionDef)]
    for annotation in found:
        for part in ast.walk(annotation) if annotation is not None else ():
            if isinstance(part, ast.Name):
                yield part.id


def described(node: Node, prefix: str = "") -> str:
    """Write one name: how it is called, what it is, what it holds."""
    parts = [f"## {prefix}{node.name}" if prefix else f"### {node.name}"]
    if isinstance(node, ast.FunctionDef):
        parts.append(f"```python\n{signature(node, prefix)}\n```")
    else:
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                parts.append(f"```python\n{signature(each, prefix, node.name)}\n```")
    parts.append(prose(ast.get_docstring(node) or ""))
    if isinstance(node, ast.ClassDef):
        parts.append(members(node))
    return "\n\n".join(part for part in parts if part)


def signature(node: ast.FunctionDef, prefix: str, name: str = "") -> str:
    """Write a call with its arguments, one a line where they are many."""
    arguments = node.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments = ast.arguments(**{**vars(arguments), "args": arguments.args[1:]})
    inside = ast.unparse(arguments)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None and not name else ""
    line = f"{prefix}{name or node.name}({inside}){returns}"
    if len(line) <= 96:
        return line
    parts = re.split(r", (?![^\[]*\])", inside)
    return "\n".join([f"{prefix}{name or node.name}(", *(f"    {part}," for part in parts), f"){returns}"])


def members(node: ast.ClassDef) -> str:
    """Write fields, properties and methods with what is said of them."""
    lines = []
    for each, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id[0] != "_":
            said = after.value.value if _is_text(after) else ""  # type: ignore[union-attr]
            lines.append(_member(f"{each.target.id}: {ast.unparse(each.annotation)}", str(said)))
        elif isinstance(each, ast.FunctionDef) and each.name[0] != "_":
            bare = any("property" in ast.unparse(mark) for mark in each.decorator_list)
            returns = f": {ast.unparse(each.returns)}" if bare and each.returns is not None else ""
            head = f"{each.name}{returns}" if bare else signature(each, "")
            lines.append(_member(head, ast.get_docstring(each) or ""))
    return "\n".join(lines)


def _is_text(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _member(head: str, said: str) -> str:
    return f"- `{' '.join(head.split())}`" + (f"  \n  {' '.join(said.split())}" if said else "")


def prose(docstring: str) -> str:
    """Turn literal blocks (`::`, indented) into fenced Python."""
    lines: list[str] = []
    for block in re.split(r"\n\n+", docstring):
        if block.startswith("    "):
            lines.append(f"```python\n{textwrap.dedent(block)}\n```")
        elif block.strip() != "::":
            lines.append(
                block.removesuffix(":").replace("``", "`") if block.endswith("::") else block.replace("``", "`")
            )
    return "\n\n".join(lines)

"""The stages form one line; no import points back, and no framework is imported while fitdoctor is."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "fitdoctor"
NOUNS = {"_version", "edits", "errors", "model", "units"}
LINE = [
    "probes",
    "capture",
    "rewrites",
    "lab",
    "facts",
    "rules",
    "checking",
    "headline",
    "diagnosis",
    "backends",
    "fixes",
    "shard",
    "proof",
    "tune",
    "report",
    "pipeline",
    "api",
    "notebook",
    "serve",
    "cli",
]
ENDS = {"", "__main__", "boot"}
"""Doors into the line from outside: the public names, the command, the boot file of an observed process."""
FRAMEWORKS = {"grain", "jax", "keras", "tensorflow", "tf_keras", "torch"}


def stage(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(module: str, path: Path, *, top: bool = False) -> Iterator[tuple[str, int]]:
    tree = ast.parse(path.read_text("utf-8"))
    for node in at_import_time(tree) if top else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, node.lineno) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            name = ".".join(filter(None, (base, node.module)))
            # `from fitdoctor import units` imports the module fitdoctor.units.
            yield from ((f"{name}.{each.name}" if name == "fitdoctor" else name, node.lineno) for each in node.names)


def at_import_time(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_import_time(child)


def backward(module: str, path: Path) -> list[str]:
    here = stage(module)
    found = []
    for name, line in imports(module, path):
        if name.split(".")[0] != "fitdoctor":
            continue
        there = stage(name)
        if here in ENDS or there in NOUNS or there == here:
            continue
        if here in NOUNS or there not in LINE or LINE.index(there) > LINE.index(here):
            found.append(f"{path.name}:{line}: {module} imports {name}")
    return found


@pytest.mark.parametrize(
    ("module", "path"), list(modules()), ids=lambda each: str(each) if isinstance(each, str) else ""
)
def test_no_import_points_back(module: str, path: Path) -> None:
    assert stage(module) in {*NOUNS, *LINE, *ENDS}, f"{module} is in no stage: say in LINE where it belongs"
    assert backward(module, path) == []


@pytest.mark.parametrize(
    ("module", "path"), list(modules()), ids=lambda each: str(each) if isinstance(each, str) else ""
)
def test_no_framework_at_import_time(module: str, path: Path) -> None:
    found = [
        f"{name} in line {line}" for name, line in imports(module, path, top=True) if name.split(".")[0] in FRAMEWORKS
    ]
    assert found == []


def test_the_walker_sees_an_arrow_that_points_back(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    from fitdoctor.rules import all_rules\n    import fitdoctor.facts\n")
    assert backward("fitdoctor.facts.bad", path) == ["bad.py:2: fitdoctor.facts.bad imports fitdoctor.rules"]
    path.write_text("from ..report import json\nfrom fitdoctor import diagnosis, units\n")
    assert len(backward("fitdoctor.facts.bad", path)) == 2


def test_the_walker_sees_a_framework_in_a_class_body(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("try:\n    import keras.ops\nexcept ImportError:\n    pass\ndef f():\n    import torch\n")
    assert [name for name, _ in imports("bad", path, top=True)] == ["keras.ops"]


def test_diagnose_imports_light() -> None:
    code = "import sys, fitdoctor.diagnosis; print(sorted({m.split('.')[0] for m in sys.modules}))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(PACKAGE.parent), "PATH": ""},
    ).stdout  # fmt: skip
    assert not {"numpy", *FRAMEWORKS} & set(ast.literal_eval(out))

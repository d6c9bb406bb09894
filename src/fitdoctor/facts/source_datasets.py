"""Datasets written in Python, as the source shows them: their classes, and the functions that make their batches."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fitdoctor.facts.source_tree import SourceFile

KERAS = frozenset({"keras.utils.PyDataset", "keras.utils.Sequence", "keras.utils.data_utils.Sequence"})
_TORCH = frozenset({"torch.utils.data.Dataset", "torch.utils.data.IterableDataset"})
_FEED = ("from_generator", "fit", "fit_generator")
_WORK = frozenset(
    {"open", "imread", "imdecode", "read", "read_bytes", "read_text", "read_file", "read_csv", "read_image",
     "read_parquet", "load", "loads", "loadtxt", "fromfile", "load_img", "get", "get_object", "urlopen", "request",
     "sleep", "decompress", "decode", "decode_image", "decode_jpeg", "decode_png", "resize", "rotate", "warpAffine",
     "tokenize", "stft"}
)  # fmt: skip
"""Calls that read, fetch or unpack, or that take a while."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def keras_datasets(file: SourceFile) -> list[ast.ClassDef]:
    """Return the classes that are a `PyDataset` (or `Sequence`)."""
    return [node for node in file.nodes(ast.ClassDef) if KERAS & file.bases(node)]


def datasets(file: SourceFile) -> list[ast.ClassDef]:
    """Return the classes that are a dataset of Keras or torch."""
    return [node for node in file.nodes(ast.ClassDef) if (KERAS | _TORCH) & file.bases(node)]


def makes_batches(file: SourceFile, classes: Iterable[ast.ClassDef]) -> list[Function]:
    """Return the functions that make the items of these classes, and those of the file that they call."""
    own = {
        each.name: each
        for node in classes
        for each in node.body
        if isinstance(each, ast.FunctionDef) and each.name in ("__getitem__", "__getitems__", "__iter__")
    }
    return reached(file, own.values())


def generators(file: SourceFile) -> list[Function]:
    """Return the functions that yield and are handed to a training or a dataset, and those that they call."""
    named: set[str] = set()
    for call in file.calls_of(*_FEED):
        given = call.node.args[:1] + [each.value for each in call.node.keywords if each.arg in ("x", "generator")]
        for each in given:
            made = [call.node.func for call in file.chain(each)]
            named |= {node.id for part in (each, *made) for node in ast.walk(part) if isinstance(node, ast.Name)}
    yielding = {file.scope(node) for node in file.nodes(ast.Yield, ast.YieldFrom)}
    found = [each for name, each in file.functions.items() if name in named and each in yielding]
    return reached(file, found)


def reached(file: SourceFile, functions: Iterable[Function]) -> list[Function]:
    """Return these functions and those of the file that they call."""
    found = list(functions)
    queue = list(found)
    while queue:
        for node in ast.walk(queue.pop()):
            called = node.func if isinstance(node, ast.Call) else None
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            function = file.functions.get(name)
            if function is not None and function not in found:
                found.append(function)
                queue.append(function)
    return found


def works(file: SourceFile, node: ast.ClassDef) -> bool:
    """Tell whether making an item of this class reads, unpacks or computes: more than looking into memory."""
    for function in makes_batches(file, [node]):
        for each in ast.walk(function):
            name = getattr(each.func, "attr", getattr(each.func, "id", "")) if isinstance(each, ast.Call) else ""
            if name in _WORK:
                return True
    return False

"""Functions that compute with TensorFlow from what they are given alone: it does not matter when they run.

No Python while the pipeline runs, no random numbers but stateless ones, no variable, table or layer that somebody may
change meanwhile.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection

from fitdoctor.facts.provable.functions import function, is_bound_once, library
from fitdoctor.facts.source_tree import SourceFile

_NAMES = frozenset(
    f"tensorflow.{name}"
    for name in (
        "abs", "add", "argmax", "argmin", "argsort", "audio.decode_wav", "broadcast_to", "cast", "clip_by_value",
        "concat", "constant", "convert_to_tensor", "cumsum", "divide", "ensure_shape", "equal", "exp", "expand_dims",
        "fill", "gather", "identity", "linspace", "logical_and", "logical_not", "logical_or", "maximum", "minimum",
        "multiply", "negative", "one_hot", "ones", "ones_like", "pad", "range", "rank", "repeat", "reshape", "reverse",
        "round", "shape", "sigmoid", "sign", "size", "slice", "split", "sqrt", "square", "squeeze", "stack", "subtract",
        "tanh", "tile", "transpose", "unstack", "where", "zeros", "zeros_like",
    )
)  # fmt: skip
_BELOW = tuple(
    f"tensorflow.{name}"
    for name in (
        "bitwise.", "image.", "io.FixedLen", "io.RaggedFeature", "io.VarLen", "io.decode_", "io.parse_", "io.read_file",
        "linalg.", "math.", "reduce_", "signal.", "sparse.", "strings.",
    )
)  # fmt: skip
_SOURCES = frozenset(
    f"tensorflow.data.{name}"
    for name in ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset", "Dataset.from_tensor_slices",
                 "Dataset.from_tensors", "Dataset.range")
)  # fmt: skip
_WHEN_TRACED = frozenset(
    {"dict", "enumerate", "float", "int", "len", "list", "range", "reversed", "str", "tuple", "zip"}
)
_METHODS = frozenset({"batch", "get", "get_shape", "items", "keys", "set_shape", "values"})
_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr, ast.If, ast.For, ast.Pass, ast.Assert)


def is_stateless(file: SourceFile, given: ast.expr) -> bool:
    """Tell whether a function surely gives the same whenever it runs."""
    return library(file, given) in _SOURCES or _is_stateless(file, given, frozenset())


def _is_stateless(file: SourceFile, given: ast.expr, around: frozenset[str]) -> bool:
    found = function(file, given)
    name = given.id if isinstance(given, ast.Name) else ""
    if found is None or name in around:
        return False
    nodes = [node for each in found.body for node in ast.walk(each)]
    own = {*found.parameters, *(each.id for each in nodes if isinstance(each, ast.Name) and not _is_read(each))}
    own |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    called = {id(each.func) for each in nodes if isinstance(each, ast.Call)}
    return (
        all(isinstance(each, _STATEMENTS) for each in nodes if isinstance(each, ast.stmt))
        and not any(isinstance(each, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)) for each in nodes)
        and not any(isinstance(each, (ast.Attribute, ast.Subscript)) and not _is_read(each) for each in nodes)
        and all(_is_known(file, each, own) for each in nodes if isinstance(each, ast.Name) and id(each) not in called)
        and all(_computes(file, each, own, around | {name}) for each in nodes if isinstance(each, ast.Call))
    )


def _is_read(node: ast.Name | ast.Attribute | ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Load)


def _is_known(file: SourceFile, node: ast.Name, own: Collection[str]) -> bool:
    """Tell whether a name stands for what never changes: given, made inside, a module, or written in the source."""
    if node.id in own or node.id in _WHEN_TRACED or file.aliases.get(node.id, "").split(".")[0] == "tensorflow":
        return True
    values = file.assigned.get(node.id, ())
    return is_bound_once(file, node.id) and len(values) == 1 and _is_written(file, values[0].value)


def _is_written(file: SourceFile, node: ast.expr) -> bool:
    """Tell whether a value is made of constants: numbers, texts, and how records are laid out."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(_is_written(file, each) for each in node.elts)
    if isinstance(node, ast.Dict):
        return all(each is not None and _is_written(file, each) for each in (*node.keys, *node.values))
    if isinstance(node, ast.UnaryOp):
        return _is_written(file, node.operand)
    if isinstance(node, ast.Attribute):
        return file.resolve(node) in {f"tensorflow.{name}" for name in ("float32", "int64", "string")}
    if isinstance(node, ast.Call):
        layout = file.resolve(node.func).startswith(("tensorflow.io.FixedLen", "tensorflow.io.VarLen"))
        return layout and all(_is_written(file, each) for each in (*node.args, *(one.value for one in node.keywords)))
    return isinstance(node, ast.Constant)


def _computes(file: SourceFile, node: ast.Call, own: Collection[str], around: frozenset[str]) -> bool:
    """Tell whether a call is one of TensorFlow that has no state, or of a function of the file like it."""
    name = library(file, node.func)
    last = node.func.attr if isinstance(node.func, ast.Attribute) else name.rpartition(".")[2]
    if name.startswith("tensorflow."):
        drawn = last.startswith(("random", "sample_distorted")) or ".random." in name
        return not drawn and (name in _NAMES or name in _SOURCES or name.startswith(_BELOW))
    if isinstance(node.func, ast.Attribute):
        return last in _METHODS and not name
    if isinstance(node.func, ast.Name) and node.func.id not in own:
        if node.func.id in file.functions:
            return _is_stateless(file, node.func, around)
        return node.func.id in _WHEN_TRACED and hasattr(builtins, node.func.id) and node.func.id not in file.assigned
    return False

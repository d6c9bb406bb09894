"""Where an edit would go: from the lines that were seen in a run to exact places in the source.

Everything here gives nothing where it is not sure: two calls that could be meant are none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TypeVar

from fitdoctor.edits import Arguments, Edit, Rename, Spot
from fitdoctor.facts.mapped import method
from fitdoctor.facts.order import runs_after
from fitdoctor.facts.provable.functions import library
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.model import Site

T = TypeVar("T")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

COMPILE = (
    "optimizer", "loss", "loss_weights", "metrics", "weighted_metrics", "run_eagerly", "steps_per_execution",
    "jit_compile",
)  # fmt: skip
FIT = (
    "x", "y", "batch_size", "epochs", "verbose", "callbacks", "validation_split", "validation_data", "shuffle",
    "class_weight", "sample_weight", "initial_epoch", "steps_per_epoch", "validation_steps", "validation_batch_size",
    "validation_freq",
)  # fmt: skip
LOADER = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers")
"""The arguments of Keras's and torch's functions that may be given by position, in their order."""
ORDERS = {
    "map": ("map_func", "num_parallel_calls"),
    "interleave": ("map_func", "cycle_length", "block_length", "num_parallel_calls"),
    "flat_map": ("map_func",),
}
DATASETS = frozenset(
    {
        "apply", "batch", "bucket_by_sequence_length", "cache", "choose_from_datasets", "concatenate", "enumerate",
        "filter", "flat_map", "from_generator", "from_tensor_slices", "from_tensors", "group_by_window", "interleave",
        "list_files", "load", "map", "padded_batch", "prefetch", "ragged_batch", "random", "range", "rebatch", "repeat",
        "sample_from_datasets", "scan", "shard", "shuffle", "skip", "take", "take_while", "unbatch", "unique", "window",
        "with_options", "zip", "FixedLengthRecordDataset", "TFRecordDataset", "TextLineDataset",
        "image_dataset_from_directory", "text_dataset_from_directory", "audio_dataset_from_directory",
        "timeseries_dataset_from_array",
    }
)  # fmt: skip
"""What makes a dataset of tf.data."""
OPERATORS = {
    "Map": "map",
    "ParallelMap": "map",
    "Batch": "batch",
    "ParallelBatch": "batch",
    "PaddedBatch": "padded_batch",
    "Interleave": "interleave",
    "ParallelInterleave": "interleave",
    "FlatMap": "flat_map",
    "Filter": "filter",
    "Scan": "scan",
}
"""Operators of a running pipeline, and the methods that make them."""


def spot(call: FoundCall) -> Spot:
    """Return the place of a call: where the name of what is called ends."""
    name = call.node.func
    return Spot(call.file.path, name.end_lineno or name.lineno, name.end_col_offset or 0)


def start(file: SourceFile, node: ast.stmt) -> Spot:
    """Return where a statement begins; of a function its `def`."""
    return Spot(file.path, node.lineno, node.col_offset)


def the_only(found: Iterable[T]) -> T | None:
    """Return what there is exactly one of."""
    each = list(found)
    return each[0] if len(each) == 1 else None


def calls_at(source: SourceTree | None, site: Site | None, *methods: str) -> list[FoundCall]:
    """Return the calls of these methods whose name stands in the line of a site."""
    if source is None or site is None:
        return []
    found = (call for file in source.files if file.path == site.path for call in file.calls())
    return [call for call in found if call.site.line == site.line and method(call) in methods and not _of_python(call)]


def _of_python(call: FoundCall) -> bool:
    """Tell Python's own `map`, `zip`, `enumerate`, ... from those of datasets."""
    return isinstance(call.node.func, ast.Name) and call.name in ("enumerate", "filter", "map", "range", "zip")


def call_at(source: SourceTree | None, site: Site | None, *methods: str) -> FoundCall | None:
    """Return the one call of these methods in the line of a site."""
    return the_only(calls_at(source, site, *methods))


def fit_at(source: SourceTree | None, site: Site | None) -> FoundCall | None:
    """Return the `fit` of a site."""
    return call_at(source, site, "fit")


def the_compile(source: SourceTree | None) -> FoundCall | None:
    """Return the one call of a model's `compile`; none where a model of the script takes other arguments there."""
    call = the_only(source.compile_calls()) if source is not None else None
    if source is None or call is None or _is_super(call):
        return call
    own = [each for file in source.files for each in file.nodes(ast.FunctionDef) if _is_method(file, each, "compile")]
    handed_on = not call.node.args and all(each.args.kwarg is not None for each in own)
    return call if handed_on or not own else None


def _is_super(call: FoundCall) -> bool:
    receiver = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    return isinstance(receiver, ast.Call) and call.file.resolve(receiver.func) == "super"


def _is_method(file: SourceFile, function: ast.FunctionDef, name: str) -> bool:
    return function.name == name and isinstance(file.parents.get(function), ast.ClassDef)


def end_of_pipeline(source: SourceTree | None, site: Site | None) -> FoundCall | None:
    """Return the last call of the chain that makes a dataset in the line of a site; options are no part of it."""
    found = [
        call for call in calls_at(source, site, *DATASETS) if method(call) != "with_options" and _one_dataset(call)
    ]
    inner = {id(call.node.func.value) for call in found if isinstance(call.node.func, ast.Attribute)}
    inner |= {id(node) for call in found for each in _given(call.node) for node in ast.walk(each)}
    return the_only(call for call in found if id(call.node) not in inner)


def _one_dataset(call: FoundCall) -> bool:
    """Tell whether a call that is named so may return a dataset, and no more than one."""
    statement = call.file.parents.get(call.node)
    unpacked = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Tuple, ast.List))
    subset = call.keyword("subset")
    both = isinstance(subset, ast.Constant) and subset.value == "both"
    known = library(call.file, call.node.func)
    made = not known or known.startswith("tensorflow.data.") or "_dataset_from_" in known
    return made and not unpacked and not both and not (isinstance(call.node.func, ast.Name) and not known)


def _given(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)]


def next_in_chain(call: FoundCall, name: str) -> FoundCall | None:
    """Return the call of a method right after this one: of what it returns, or of the name that is assigned to."""
    around = call.file.parents.get(call.node)
    if isinstance(around, ast.Attribute):
        outer = call.file.parents.get(around)
        if around.attr == name and isinstance(outer, ast.Call) and outer.func is around:
            return FoundCall(call.file, outer, call.file.resolve(around))
        return None
    return _in_next_statement(call, name) if isinstance(around, ast.Assign) else None


def _in_next_statement(call: FoundCall, name: str) -> FoundCall | None:
    file, statement = call.file, call.file.parents[call.node]
    assert isinstance(statement, ast.Assign)
    block = getattr(file.parents.get(statement), "body", [])
    place = block.index(statement) + 1 if statement in block else len(block)
    following = block[place] if place < len(block) else None
    if not isinstance(following, ast.Assign):
        return None
    target = statement.targets[0]
    for node in ast.walk(following.value):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == name
            and isinstance(node.func.value, ast.Name)
            and isinstance(target, ast.Name)
            and node.func.value.id == target.id
        ):
            return FoundCall(file, node, f".{name}")
    return None


def as_written(source: SourceTree | None, site: Site | None, code: str) -> tuple[Edit, ...]:
    """Turn a stage as the lab tried it (`.map(f, num_parallel_calls=2)`) into edits of the call in a site's line."""
    try:
        wanted = ast.parse(f"data{code}", mode="eval").body
    except SyntaxError:
        return ()
    if not isinstance(wanted, ast.Call) or not isinstance(wanted.func, ast.Attribute) or not wanted.keywords:
        return ()
    now = wanted.func.attr
    before = ("flat_map",) if now == "interleave" and "cycle_length" in {each.arg for each in wanted.keywords} else ()
    found = calls_at(source, site, *(before or (now,)))
    first = ast.unparse(wanted.args[0]) if wanted.args else ""
    call = the_only(found) or the_only(each for each in found if each.node.args and _named(each) == first)
    if call is None:
        return ()
    give = tuple((str(each.arg), full(ast.unparse(each.value))) for each in wanted.keywords)
    arguments = Arguments(spot(call), give, order=ORDERS.get(now, ()))
    return (Rename(spot(call), now), arguments) if before else (arguments,)


def _named(call: FoundCall) -> str:
    return ast.unparse(call.node.args[0])


def full(code: str) -> str:
    """Name TensorFlow in full where code says `tf`."""
    return re.sub(r"\btf\.", "tensorflow.", code)


def function_around(file: SourceFile, node: ast.AST) -> ast.FunctionDef | None:
    """Return the plain function that a node stands in."""
    return next((each for each in file.inside(node) if isinstance(each, ast.FunctionDef)), None)


_OUTSIDE = frozenset({"print", "open", "input", "float", "int", "bool", "next"})
_READS = frozenset({"numpy", "item", "tolist"})
_UPDATES = frozenset(
    {
        "apply", "apply_gradients", "assign", "assign_add", "assign_sub", "minimize", "reset_state", "stop_recording",
        "update_state", "watch",
    }
)  # fmt: skip
"""What a step may call for its effect alone: it is part of the graph."""
_TRACED = frozenset(
    {
        "contextlib", "einops", "functools", "itertools", "keras", "keras_cv", "keras_hub", "keras_nlp", "math",
        "operator", "tensorflow", "tensorflow_addons", "tensorflow_probability", "typing",
    }
)  # fmt: skip
"""Libraries that a step may call: they make part of the graph, or the same number each time."""


_NO_GRAPH = (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.Try, ast.While, ast.Raise)
"""What no graph does, or does at once: an error below an `if` is raised while it is traced."""


def compiles_alike(source: SourceTree, file: SourceFile, function: ast.FunctionDef) -> bool:
    """Tell whether a function surely does the same when it is traced once: it computes, and does nothing besides."""
    own = frozenset(PurePath(each.path).stem for each in source.files)
    for place, body in reached(source, file, function):
        made = [call.node for name in {function.name, body.name} for call in _calls_of(place, name)]
        if not _only_computes(place, body, own) or _frozen(place, body, made):
            return False
    if _in_loop(file, function):
        return False
    return not any(_varies(call) or _new_objects(call, function) for call in _calls_of(file, function.name))


def _only_computes(file: SourceFile, function: ast.FunctionDef | ast.AsyncFunctionDef, own: frozenset[str]) -> bool:
    if not all(_known(module.split("."), own) for module in _all_of(file)):
        return False
    for node in ast.walk(function):
        if isinstance(node, _NO_GRAPH):
            return False
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and any(_kept(each) for each in _targets(node)):
            return False
        if isinstance(node, ast.Call) and _acts(file, node, own):
            return False
    return True


def reached(
    source: SourceTree, file: SourceFile, node: ast.AST
) -> list[tuple[SourceFile, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Return the functions of the user's own that a node names, or is one of, and those that they name.

    What is called without a name that leads there may be a model or a layer: its `call` is among them.
    """
    defined: list[tuple[SourceFile, ast.FunctionDef | ast.AsyncFunctionDef]] = []
    for each in source.files:
        defined += [(each, function) for function in each.nodes(ast.FunctionDef)]
        defined += [(each, function) for function in each.nodes(ast.AsyncFunctionDef)]
    found = [pair for pair in defined if pair[1] is node]
    queue: list[tuple[SourceFile, ast.AST]] = [(file, node)]
    names = {"call", "__call__"}
    while queue:
        place, here = queue.pop()
        said = {part.id for part in ast.walk(here) if isinstance(part, ast.Name)}
        said |= {part.attr for part in ast.walk(here) if isinstance(part, ast.Attribute)}
        imported = {**_relative(place), **place.aliases}
        names |= {imported[name].rpartition(".")[2] for name in said if name in imported} | said
        new = [pair for pair in defined if pair[1].name in names and pair not in found]
        found += new
        queue += new
    return found


def _targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _kept(target: ast.expr) -> bool:
    """Tell whether something outlives the call: an attribute or an item is assigned to."""
    return any(isinstance(each, (ast.Attribute, ast.Subscript)) for each in ast.walk(target))


def _acts(file: SourceFile, call: ast.Call, own: frozenset[str]) -> bool:
    """Tell whether a call does something that a trace does not repeat, or may do; `own` are the user's own modules."""
    name = file.resolve(call.func)
    last = name.rpartition(".")[2]
    for_its_effect = isinstance(file.parents.get(call), ast.Expr) and last not in _UPDATES
    if for_its_effect or name in _OUTSIDE or (isinstance(call.func, ast.Attribute) and last in _READS):
        return True
    root = _beginning(call.func)
    if root in file.aliases:
        return not _known(name.split("."), own)
    near = _relative(file).get(root)
    return near is not None and not own & set(near.split("."))


def _known(words: list[str], own: frozenset[str]) -> bool:
    """Tell whether a name leads to a library that a step may call, or to a file that was read."""
    return words[0] in _TRACED or bool(own & set(words))


def _beginning(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _relative(file: SourceFile) -> dict[str, str]:
    """Return what names stand for that come from the package around a file."""
    return {
        each.asname or each.name: f"{taken.module}.{each.name}" if taken.module else each.name
        for taken in file.nodes(ast.ImportFrom)
        if taken.level
        for each in taken.names
    }


def _all_of(file: SourceFile) -> Iterator[str]:
    """Yield the modules all of whose names a file takes over: any name of its may be one of theirs."""
    for taken in file.nodes(ast.ImportFrom):
        if any(each.name == "*" for each in taken.names):
            yield taken.module or ""


def _given_out(file: SourceFile, name: ast.Name) -> bool:
    """Tell whether a function that is called again and again binds a name for others."""
    scope = file.scope(name)
    told = (node for node in ast.walk(scope) if isinstance(node, (ast.Global, ast.Nonlocal)))
    return any(name.id in each.names for each in told) and file.repeats(name)


def _sets_up(file: SourceFile, node: ast.AST) -> bool:
    return getattr(file.scope(node), "name", "") in ("__init__", "build")


def _frees_layers(node: ast.Attribute) -> bool:
    """Tell `layer.trainable = True`: the variables that a step asks for are others then."""
    return node.attr == "trainable" and isinstance(node.ctx, ast.Store)


_CHANGES = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
        "reverse", "rotate", "setdefault", "sort", "update",
    }
)  # fmt: skip
"""What changes a list, a dict, a set or a deque."""


def changed(node: ast.AST) -> ast.expr | None:
    """Return what a node changes something in: an item of it, or an attribute by its name in a string."""
    held: ast.expr | None = None
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        held = node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        held = node.func.value
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr") and node.args:
        held = node.args[0]
    while isinstance(held, ast.Subscript):
        held = held.value
    return held


def _frozen(file: SourceFile, function: ast.FunctionDef | ast.AsyncFunctionDef, made: Sequence[ast.Call]) -> bool:
    """Tell whether it looks at something that is assigned anew or changed elsewhere: a trace would keep what it was.

    `made` are the calls of it: what is changed before all of them is seen.
    """
    inside = set(ast.walk(function))
    outside = [node for node in ast.walk(file.tree) if node not in inside]
    stored = [node for node in outside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names = [node.id for node in stored]
    again = {
        node.id for node in stored if names.count(node.id) > 1 or _in_loop(file, node) or _given_out(file, node)
    } | {
        name.id
        for node in outside
        if isinstance(node, (ast.For, ast.AugAssign))
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name)
    }
    attributes = {
        node.attr
        for node in outside
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not _sets_up(file, node)
    }
    held = [each for node in outside if (each := changed(node)) is not None and runs_after(file, each, made)]
    again |= {each.id for each in held if isinstance(each, ast.Name)}
    attributes |= {each.attr for each in held if isinstance(each, ast.Attribute) and not _sets_up(file, each)}
    own = {node.arg for node in inside if isinstance(node, ast.arg)}
    own |= {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    free = {node.id for node in inside if isinstance(node, ast.Name)} - own
    looked_at = {node.attr for node in inside if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    if any(_frees_layers(node) and runs_after(file, node, made) for node in outside if isinstance(node, ast.Attribute)):
        return True
    return bool(free & again or looked_at & attributes)


def _in_loop(file: SourceFile, node: ast.AST) -> bool:
    return any(isinstance(each, (ast.For, ast.While, ast.AsyncFor)) for each in file.inside(node))


def _calls_of(file: SourceFile, name: str) -> Iterator[FoundCall]:
    for call in file.calls():
        if isinstance(call.node.func, (ast.Name, ast.Attribute)) and method(call) == name:
            yield call


def _varies(call: FoundCall) -> bool:
    """Tell whether a call hands over a plain number that may be another one each time: it would be traced anew."""
    counters = {
        name.id
        for loop in call.file.inside(call.node)
        if isinstance(loop, ast.For) and _counts(loop)
        for name in ast.walk(_counter(loop))
        if isinstance(name, ast.Name)
    }
    return any(
        isinstance(node, ast.Name) and node.id in counters for each in _given(call.node) for node in ast.walk(each)
    )


_OF_MODELS = frozenset({"losses", "trainable_variables", "trainable_weights", "variables", "weights", *_UPDATES})


def _new_objects(call: FoundCall, function: ast.FunctionDef) -> bool:
    """Tell whether a call hands over a model or an optimizer that is made anew: a trace makes no variables twice."""
    file = call.file
    parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    models = {
        node.func.id for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    models |= {
        node.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _OF_MODELS
    }
    shift = parameters[:1] == ["self"] and isinstance(call.node.func, ast.Attribute)
    given = dict(zip(parameters[shift:], call.node.args, strict=False))
    given |= {each.arg: each.value for each in call.node.keywords if each.arg is not None}
    return any(name in models and _made_again(file, value) for name, value in given.items())


def _made_again(file: SourceFile, value: ast.expr) -> bool:
    if not isinstance(value, ast.Name):
        return not isinstance(value, ast.Attribute)
    scope = file.scope(value)
    if isinstance(scope, _FUNCTIONS) and value.id in {
        each.arg for each in ast.walk(scope.args) if isinstance(each, ast.arg)
    }:
        return any(file.repeats(each.node) for each in _calls_of(file, scope.name))
    bound = [node for node in file.nodes(ast.Name) if node.id == value.id and isinstance(node.ctx, ast.Store)]
    return any(file.repeats(node) for node in bound)


def _counts(loop: ast.For) -> bool:
    made = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    return isinstance(made, ast.Name) and made.id in ("range", "enumerate")


def _counter(loop: ast.For) -> ast.expr:
    counted = isinstance(loop.iter, ast.Call) and getattr(loop.iter.func, "id", "") == "enumerate"
    return loop.target.elts[0] if counted and isinstance(loop.target, ast.Tuple) else loop.target


def statement_of(file: SourceFile, node: ast.AST) -> ast.stmt | None:
    """Return the statement that is nothing but this expression."""
    around = file.parents.get(node)
    return around if isinstance(around, ast.Expr) else None


def takes(source: SourceTree, call: FoundCall, *names: str) -> bool:
    """Tell whether a call may be given these names: not where a class of the user's own has another constructor."""
    made = [file.classes[method(call)] for file in source.files if method(call) in file.classes]
    constructors = [
        each for node in made for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"
    ]
    return all(
        each.args.kwarg is not None
        or set(names) <= {one.arg for one in ast.walk(each.args) if isinstance(one, ast.arg)}
        for each in constructors
    )


def loop_of(file: SourceFile, statement: ast.stmt) -> ast.For | ast.While | None:
    """Return the loop that a statement stands right in."""
    around = file.parents.get(statement)
    return around if isinstance(around, (ast.For, ast.While)) and statement in around.body else None


def stored(loop: ast.AST) -> set[str]:
    """Return the names that a loop binds."""
    names = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.name for node in ast.walk(loop) if isinstance(node, (*_FUNCTIONS, ast.ClassDef))}

"""A Python loop inside a compiled step is unrolled into a huge graph.

## What is wrong

While a step is traced, Python runs: `for t in range(200)` puts the operations of its body into the graph two hundred
times.  Tracing, optimising and compiling take as many times longer, before the first step and again after
every retrace.

## How it is established

The first trace of every function is timed, and on TensorFlow its operations are counted.  Where it takes a share of the
whole training that can be told from nothing, and a loop over a `range` stands in what is compiled, that is said: as a
suspicion with what was seen, never as a finding.  What the step would take with the loop inside the graph was not
measured, and it is not always less.  A recurrent cell of 64 units over 200 times, forwards and backwards, on two cores:

| | first call | step |
|---|---|---|
| TensorFlow, `range` (2,827 operations) | 2.3 s | 9.8 ms |
| TensorFlow, `tf.range` | 0.15 s | 20.6 ms |
| JAX, `range` | 10.5 s | 10.4 ms |
| JAX, `lax.scan` | 0.5 s | 7.5 ms |

## What to do

Let the framework loop: `for t in tf.range(n)` in a `tf.function`, `keras.ops.scan` or `keras.ops.fori_loop`,
`jax.lax.scan`.  Then time a few steps: if they take longer, what is saved once may be lost in the steps.

## When it is not worth it

In long trainings: it is paid once.  In loops over layers, each of which is different.

## Example

    for t in range(x.shape[1]):             # the body two hundred times in the graph
        state = cell(x[:, t], state)

    for t in tf.range(tf.shape(x)[1]):      # once
        state = cell(x[:, t], state)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.again import whole_compilations
from fitdoctor.facts.compile_log import CompileLog
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import LENGTH, Training
from fitdoctor.model import Cost, Fix, Gap, Site
from fitdoctor.rules import Absent, Clear, Suspect, Verdict

_BY_KERAS = frozenset({"call", "train_step", "compute_loss"})
"""Methods that Keras compiles by itself."""
FEW = 16
"""A loop that says it has fewer turns than this is as well unrolled."""


SUSPICION = "may be unrolled into a huge graph that takes long to trace and compile"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find loops over a range in what is compiled, unless every turn takes another layer."""
    for file in source.files:
        for node in file.nodes(ast.For):
            if not _ranges(node) or not _is_compiled(file, node) or _takes_parts(node):
                continue
            if source.ran or (_is_long(file, node) and _is_of_a_model(file, node)):
                yield file.site(node)


def _ranges(loop: ast.For) -> bool:
    """Tell whether a loop has many turns that differ in a number alone."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "range":
        return False
    said = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, int)]
    works = any(isinstance(node, ast.Call) for each in loop.body for node in ast.walk(each))
    return works and (len(said) < len(call.args) or len(range(*said)) >= FEW)


def _is_long(file: SourceFile, loop: ast.For) -> bool:
    """Tell whether the source says that there are many turns: a number, or the length of an axis."""
    given = loop.iter.args if isinstance(loop.iter, ast.Call) else []
    said = [file.constant(each) for each in given]
    if said and all(isinstance(each, int) for each in said):
        return len(range(*said)) >= FEW
    end = given[min(1, len(given) - 1)] if given else None
    if not (isinstance(end, ast.Subscript) and isinstance(end.value, ast.Attribute) and end.value.attr == "shape"):
        return False
    made = file.chain(end.value.value)
    return not (made and made[-1].name.endswith("numpy"))  # an array, not a tensor


def _is_of_a_model(file: SourceFile, node: ast.AST) -> bool:
    """Tell whether it is compiled by name only, and then in a class that Keras compiles."""
    around = next((each for each in file.inside(node) if isinstance(each, ast.ClassDef)), None)
    bases = file.bases(around) if around is not None else set()
    return file.is_compiled(node) or any(name.endswith(("Layer", "Model", "Cell")) for name in bases)


def _is_compiled(file: SourceFile, node: ast.AST) -> bool:
    around = {getattr(each, "name", None) for each in file.inside(node) if isinstance(each, ast.FunctionDef)}
    return file.is_compiled(node) or bool(around & _BY_KERAS)


def _takes_parts(loop: ast.For) -> bool:
    """Tell whether the body picks something of `self` by its number."""
    return any(
        isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and _is_self(node.value.value)
        for each in loop.body
        for node in ast.walk(each)
    )


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def measure(training: Training, log: CompileLog, model: StepModel, source: SourceTree | None) -> Verdict:
    """Weigh the longest first trace against the whole training."""
    if training.backend == "torch":
        return Absent("torch runs op by op: nothing is unrolled")
    # What a hand-written loop calls is traced before anybody knows that it is one.
    before = {None} if training.kind != "fit" else set()
    made = list(whole_compilations([each for each in log.entries if each.call in training.call_ids | before]))
    if not made:
        return Clear("nothing was seen to be compiled")
    longest, seconds = max(made, key=lambda each: each[1])
    share = seconds / model.whole_s if model.whole_s > 0 else 0.0
    size = longest.detail.get("operations")
    told = f"{longest.name} took {units.duration(seconds)} to trace"
    told += f" into {units.count(size)} operations" if size else ""
    if share <= model.noise:
        return Clear(f"{told}, {units.percent(share)} of the training")
    if source is None:
        raise MissingEvidence(Gap("the script's source", "it was not kept", "run again without redaction"))
    loops = list(locate(source))
    if not loops:
        return Absent("no Python loop over a range stands in what is compiled")
    if LENGTH in training.gaps:
        raise MissingEvidence(LENGTH)
    why = (
        f"{told}, {units.percent(share)} of the training, and this loop is gone through in Python meanwhile; "
        "what the step would take with the loop inside the graph was not measured"
    )
    return Suspect(why, loops[0])


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost, source
    return Fix("let the framework loop: tf.range, keras.ops.scan or jax.lax.scan; then time a few steps", "same")

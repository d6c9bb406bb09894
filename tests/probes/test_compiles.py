"""Traces and compilations: what was new about each, on which line, on every backend that has them."""

from __future__ import annotations

import collections
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fitdoctor.diagnosis import diagnose
from fitdoctor.facts import resolve
from fitdoctor.facts.training import Training
from fitdoctor.model import Compile
from fitdoctor.probes import traced
from fitdoctor.probes.compiles import CompileProbe, _last, _varies
from fitdoctor.probes.install import Patches
from fitdoctor.probes.recorder import Nowhere, Recorder
from fitdoctor.probes.steps import Tracker
from tests.conftest import Doctor, Result

# --- what changed -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [
        ("1", "2", "value"),
        ("str 0000aaaa", "str 0000bbbb", "value"),
        ("float32[32,10]", "float32[32,11]", "shape"),
        ("float32[32,10]", "float32[?,10]", "shape"),
        ("int32[32]", "float32[32]", "dtype"),
        ("3", "int32[]", "structure"),
        ("", "float32[3]", "structure"),
        ("Model object 7f01", "Model object 7f02", "object"),
    ],
)
def test_the_kind_of_a_change(was: str, now: str, kind: str) -> None:
    (change,) = traced.changes({"x": was} if was else {}, {"x": now})
    assert (change["argument"], change["was"], change["now"], change["kind"]) == ("x", was, now, kind)


class Key:
    """Hashed in Python, as the function types of TensorFlow are: each hash walks through every argument."""

    hashed = 0

    def __hash__(self) -> int:
        Key.hashed += 1
        return id(self)


def test_the_function_traced_before_is_found_without_hashing_them_all() -> None:
    """Hundreds of traces of one function made each further one milliseconds longer."""
    cache = SimpleNamespace(_primary=collections.OrderedDict((Key(), number) for number in range(500)))
    Key.hashed = 0
    assert _last(cache) == 499
    assert Key.hashed <= 2
    assert _last(SimpleNamespace(_primary=collections.OrderedDict())) is None
    assert _last(SimpleNamespace(values=lambda: [1, 2])) == 2, "of a TensorFlow that keeps them elsewhere"
    assert _last(None) is None


def test_what_stayed_is_no_change_and_values_come_first() -> None:
    before = {"x": "float32[3]", "y": "float32[3]", "step": "1"}
    now = {"x": "float32[3]", "y": "float32[4]", "step": "2"}
    assert [each["argument"] for each in traced.changes(before, now)] == ["step", "y"]
    assert traced.changes(now, now) == []


def test_values_are_kept_as_numbers_and_told_apart_otherwise() -> None:
    assert traced._value(3) == "3"
    assert traced._value((1, 0.5)) == "(1, 0.5)"
    assert traced._value("a path of the user's") == traced._value("a path of the user's")
    assert traced._value("one") != traced._value("other")
    assert "one" not in traced._value("one")

    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("code of the user's")

    assert traced._value(Loud()).startswith("Loud object ")


@pytest.mark.parametrize(
    ("described", "varies"),
    [("float32[?,10]", False), ("float32[32,10]", False), ("int32[?,?]", True), ("int32[...]", True), ("3", False)],
)
def test_sides_that_are_left_open(described: str, varies: bool) -> None:
    assert _varies(described) is varies


def test_torch_says_how_often_it_compiled_the_same_lines() -> None:
    recorder = Recorder(Nowhere(), 0, clock=lambda: 1000)
    probe = CompileProbe(Tracker(recorder), Patches(recorder))
    for told in ("0/0", "0/1", "nonsense"):
        probe._dynamo_started()
        probe._dynamo_ended(SimpleNamespace(compile_id=told))
    details = [row[7] for row in recorder._rows["compiles"]]
    assert ['"first": true' in each for each in details] == [True, False, False]
    assert ['"first": false' in each for each in details] == [False, True, False]


def test_arguments_that_cannot_be_read_are_a_gap() -> None:
    recorder = Recorder(Nowhere(), 0, clock=lambda: 1000)
    probe = CompileProbe(Tracker(recorder), Patches(recorder))

    def fails() -> dict[str, Any]:
        raise AttributeError("another version")

    depth = recorder.account.depth
    assert probe._told(fails) == {}
    assert recorder.account.depth == depth
    assert recorder.live
    assert [what for what, _ in recorder._gaps] == ["arguments of traced functions"]


# --- real frameworks ----------------------------------------------------------------------------------


def line_of(script: Path, mark: str) -> int:
    return next(n for n, line in enumerate(script.read_text().splitlines(), 1) if line.endswith(f"# {mark}"))


def watched(doctor: Doctor, text: str, backend: str) -> tuple[Path, Result]:
    """Run a script with and without being watched: it prints the same."""
    script = doctor.script(text)
    plain = doctor.plain(str(script), backend=backend)
    assert plain.code == 0, plain.err
    seen = doctor.run("--whole", "--quiet", str(script), backend=backend)
    assert seen.code == 0, seen.err
    assert seen.out.startswith(plain.out)
    assert not [gap for gap in seen.capture.gaps if "arguments of traced" in gap.what], seen.capture.gaps
    return script, seen


def named(result: Result, kind: str, name: str) -> list[Compile]:
    return [each for each in result.capture.compiles if each.kind == kind and re.search(name, each.name)]


def firsts(entries: list[Compile]) -> list[Any]:
    return [each.detail["first"] for each in entries]


TENSORFLOW = """
import keras, tensorflow as tf

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.01)
optimizer.build(model.trainable_variables)

@tf.function
def train_step(x, step):  # defined
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2) * (1.0 + 0.1 * step)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss

losses = []
for step in range(14):
    batch = tf.ones((4 if step < 13 else 5, 8))
    losses.append(float(train_step(batch, step)))  # called
print(losses)

def once():
    @tf.function
    def double(x):
        return 2 * x
    return double(tf.constant(1.0))

print([float(once()) for _ in range(3)])
model.compile("sgd", "mse")
model.fit(tf.ones((8, 8)), tf.ones((8, 1)), verbose=0)
"""


@pytest.mark.framework
def test_tensorflow_tells_the_argument_that_changed(doctor: Doctor) -> None:
    script, seen = watched(doctor, TENSORFLOW, "tensorflow")
    steps = named(seen, "trace", "^train_step$")
    assert firsts(steps) == [True] + [False] * 13
    called, defined = line_of(script, "called"), line_of(script, "defined")
    for place, each in enumerate(steps[1:], 1):
        change = each.detail["changed"][0]
        assert (change["argument"], change["was"], change["now"]) == ("step", str(place - 1), str(place))
    last = {change["argument"]: change for change in steps[-1].detail["changed"]}
    assert (last["x"]["was"], last["x"]["now"], last["x"]["kind"]) == ("float32[4,8]", "float32[5,8]", "shape")
    assert all(each.detail["line"][1] == called for each in steps)
    assert all(each.detail["operations"] > 20 for each in steps)
    # Python counts a decorator as the first line of its function.
    assert {str(each.site) for each in steps} == {f"{script}:{defined - 1}"}
    assert firsts(named(seen, "trace", "^double$")) == [True, True, True], "each is a function of its own"
    (fit,) = named(seen, "trace", "multi_step_on_iterator")
    assert fit.detail["first"]
    report = diagnose(seen.capture)
    assert (report.findings[0].rule, str(report.findings[0].site)) == ("retracing", f"{script}:{called}")
    assert report.findings[0].cost.evidence["argument"] == "step"


JAX = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import jax, keras, numpy as np
from jax import numpy as jnp

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((None, 4)), keras.layers.Dense(8), keras.layers.GlobalAveragePooling1D(),
                          keras.layers.Dense(1)])
model.compile("sgd", "mse")

def batches():
    for length in (5, 9, 7, 12, 6, 11, 8, 14, 10, 13, 5, 9):
        yield np.ones((4, length, 4), "float32"), np.ones((4, 1), "float32")

history = model.fit(batches(), verbose=0)  # fitted
print(history.history["loss"])

def update(weights, scale, power):
    return weights * scale ** power

weights = jnp.ones((3,))
for turn in range(4):
    weights = jax.jit(update, static_argnums=2)(weights, 0.5, 2)  # same
for turn in range(4):
    weights = jax.jit(lambda w, scale: w * scale)(weights, 0.5)  # rebuilt
jitted = jax.jit(update, static_argnames="power")
for power in range(3):
    weights = jitted(weights, 0.5, power=power)  # static
print(weights.tolist())
"""


@pytest.mark.framework
def test_jax_tells_the_shape_that_changed(doctor: Doctor) -> None:
    script, seen = watched(doctor, JAX, "jax")
    fitted = line_of(script, "fitted")
    steps = [each for each in named(seen, "compile", "train_step") if each.detail["line"][1] == fitted]
    assert firsts(steps) == [True] + [False] * 9, "ten lengths"
    change = steps[1].detail["changed"][0]
    assert (change["argument"], change["kind"]) == ("data[0]", "shape")
    assert (change["was"], change["now"]) == ("float32[4,5,4]", "float32[4,9,4]")
    report = diagnose(seen.capture)
    found = next(each for each in report.findings if each.rule == "recompiling")
    assert str(found.site) == f"{script}:{fitted}"
    again = resolve(seen.capture).get(Training).again
    assert [each.cause for each in again if "train_step" in each.name] == ["shape"]
    lines = {mark: line_of(script, mark) for mark in ("same", "rebuilt", "static")}
    at = {
        mark: [each for each in named(seen, "compile", "") if each.detail.get("line") == [str(script), line]]
        for mark, line in lines.items()
    }
    assert firsts(at["same"]) == [True], "JAX knows a function that is jitted anew"
    assert firsts(at["rebuilt"]) == [True] * 4, "but not one that is made anew"
    static = at["static"]
    assert firsts(static) == [True, False, False]
    changed = static[-1].detail["changed"][0]
    assert (changed["argument"], changed["was"], changed["now"], changed["kind"]) == ("power", "1", "2", "value")


TORCH = """
import torch

torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)

@torch.compile(backend="eager", dynamic=False)
def lose(x):
    return (model(x) ** 2).mean()

losses = []
for size in (3, 3, 4, 4, 5, 6, 3):
    optimizer.zero_grad()
    loss = lose(torch.ones(size, 4))  # called
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(losses)
"""


@pytest.mark.framework
def test_torch_tells_that_it_compiled_again(doctor: Doctor) -> None:
    script, seen = watched(doctor, TORCH, "torch")
    rows = [each for each in named(seen, "compile", "torch.compile") if each.detail.get("frame") is not None]
    assert len(rows) >= 4
    assert firsts(rows)[0] is True
    assert firsts(rows).count(False) == 3, "three more sizes"
    assert rows[-1].detail["line"] == [str(script), line_of(script, "called")]

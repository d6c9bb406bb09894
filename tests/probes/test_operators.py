"""Live operators of tf.data pipelines on real frameworks, and the logic of when they are read."""

from __future__ import annotations

import json
import re
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fitdoctor.facts.input_pipeline import _operators
from fitdoctor.facts.live_pipeline import live, plain
from fitdoctor.facts.matching import match
from fitdoctor.model import Call, Capture
from fitdoctor.probes import input_tf_operators
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.input_tf_operators import EVERY_NS, FIRST_NS, WHAT, OperatorProbe
from fitdoctor.probes.install import Patches
from fitdoctor.probes.recorder import Nowhere, Recorder
from fitdoctor.probes.steps import Tracker
from tests.conftest import Doctor

SCRIPT = Path(__file__).parent / "every_pipeline.py"
SHAPES = re.findall(r"^def (\w+)\(\):", SCRIPT.read_text(), re.M)[:8]


# --- when they are read -------------------------------------------------------------------------------


class Resource:
    """Something that can die."""


class Watched:
    """A probe whose clock and whose model of the pipeline we hold in our hands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0
        self.read: list[int] = []
        self.recorder = Recorder(Nowhere(), 0, clock=lambda: self.now)
        self.tracker = Tracker(self.recorder)
        self.probe = OperatorProbe(self.tracker, Patches(self.recorder))
        self.call = ActiveCall(1, "fit", None, None, 0)
        self.error: Exception | None = None
        self.takes = 0
        monkeypatch.setattr(input_tf_operators, "_reader", lambda: self.get)

    def get(self, iterator: Any) -> Any:
        if self.error is not None:
            raise self.error
        self.read.append(self.now)
        self.now += self.takes
        node = SimpleNamespace(
            id=1, name="Range", inputs=[], num_elements=1, processing_time=1, bytes_produced=1, bytes_consumed=0,
            buffered_elements=0, buffered_bytes=0, parameters=[],
        )  # fmt: skip
        return SimpleNamespace(nodes={1: node}, output=1)

    def steps_until(self, seconds: float, every_ns: int = 10_000_000) -> None:
        due = 0.0
        while self.now < seconds * 1e9:
            self.now += every_ns
            if self.now >= due:
                due = self.probe._look(self.call)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_often_at_first_then_every_second_then_ever_more_rarely(watched: Watched) -> None:
    iterator = Resource()
    watched.probe._note(iterator)
    watched.steps_until(10)
    gaps = [after - before for before, after in zip(watched.read, watched.read[1:], strict=False)]
    assert all(FIRST_NS <= gap < FIRST_NS + 2e7 for gap in gaps[:3])
    assert all(EVERY_NS <= gap < 1.3 * EVERY_NS for gap in gaps[4:])
    watched.steps_until(100_000, every_ns=1_000_000_000)
    assert len(watched.read) < 300, "a day of training"
    assert len(watched.recorder._rows["operators"]) == len(watched.read)


def test_a_reading_that_takes_long_is_made_rarely(watched: Watched) -> None:
    """As it does where Python in the pipeline holds the GIL."""
    iterator = Resource()
    watched.probe._note(iterator)
    watched.takes = 5_000_000
    watched.steps_until(30)
    assert 5 <= len(watched.read) <= 30 / 2.5 + 1


def test_the_next_call_is_read_though_a_reading_of_the_last_one_was_held_up(watched: Watched) -> None:
    iterator = Resource()
    watched.probe._note(iterator)
    watched.takes = 200_000_000
    watched.steps_until(1)
    watched.takes = 1_000_000
    before = len(watched.read)
    due = watched.probe._look(watched.call)
    assert due - watched.now <= EVERY_NS, "it is asked again before a hundred seconds have passed"
    watched.call = ActiveCall(2, "fit", None, None, 0)
    watched.steps_until(4)
    assert len(watched.read) > before


def test_many_short_fits_are_not_all_read_often(watched: Watched) -> None:
    iterator = Resource()
    watched.probe._note(iterator)
    for number in range(1000):
        watched.call = ActiveCall(number, "fit", None, None, 0)
        watched.steps_until((number + 1) * 0.02, every_ns=2_000_000)
    assert len(watched.read) <= 4 * 20 / 1.7


def test_an_iterator_dies_when_it_would_without_us(watched: Watched) -> None:
    iterator = Resource()
    ref = weakref.ref(iterator)
    watched.probe._note(iterator)
    del iterator
    assert ref() is None
    watched.steps_until(2)
    assert watched.read == []


def test_autotune_off_is_a_gap_with_its_remedy_and_asked_once(watched: Watched) -> None:
    iterator = Resource()
    watched.probe._note(iterator)
    watched.error = type("NotFoundError", (Exception,), {})("no model")
    watched.steps_until(5)
    (gap,) = watched.recorder._gaps.values()
    assert gap.what == WHAT
    assert "autotune is off" in gap.reason
    assert "autotune.enabled" in gap.remedy
    assert watched.recorder.live, "the rest is still observed"


def test_a_tensorflow_that_does_not_tell_is_a_gap(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    iterator = Resource()
    watched.probe._note(iterator)
    monkeypatch.setattr(input_tf_operators, "_MODULE", "tensorflow.of.long.ago")
    watched.steps_until(3)
    (gap,) = watched.recorder._gaps.values()
    assert "does not tell" in gap.reason


def test_iterators_of_validation_and_callbacks_are_not_the_trainings(watched: Watched) -> None:
    account = input_tf_operators.acc
    iterator = Resource()
    for bucket in (account.VALIDATION, account.CALLBACK, account.HOOKS):
        watched.recorder.account.enter(bucket)
        watched.probe._note(iterator)
        watched.recorder.account.leave()
    watched.steps_until(2)
    assert watched.read == []


# --- real pipelines -----------------------------------------------------------------------------------


def matched(capture: Capture, call: Call) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Return the user's operators with what ran in their place, and what ran besides."""
    operators = list(_operators(call.info["dataset"]))
    found = match(operators, live(capture.operators, frozenset({call.id})))
    ran = [(each.op, found.runs_as[i].name if i in found.runs_as else None) for i, each in enumerate(operators)]
    return ran, [node.name for node in found.added]


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_pipelines_of_many_shapes(doctor: Doctor, backend: str) -> None:
    chosen = SHAPES if backend == "tensorflow" else ["zipped"]
    script = doctor.script(SCRIPT.read_text())
    plainly = doctor.plain(str(script), *chosen, backend=backend)
    seen = doctor.run("--whole", "--quiet", str(script), *chosen, backend=backend)
    assert seen.code == plainly.code == 0, seen.err
    losses = plainly.out.splitlines()
    assert seen.out.splitlines()[: len(losses)] == losses, "watching changed what was learnt"
    capture = seen.capture
    calls = dict(zip(chosen, (call for call in capture.calls if call.kind == "fit"), strict=True))
    for shape, call in calls.items():
        ran, added = matched(capture, call)
        looked = [each for each in capture.operators if each.call == call.id]
        if shape == "off":
            assert looked == []
            continue
        assert looked, f"{shape} was not looked at"
        # Once its cache is full, what lies below is not run any more.
        unseen = {"Map", "TensorSlice"} if shape == "cached" else set()
        assert {op for op, name in ran if name is None} <= unseen, (shape, ran, added)
        assert {plain(name) for name in added} <= {"Prefetch"}, (shape, added)
        nodes = live(capture.operators, frozenset({call.id}))
        assert nodes[0].per_step == pytest.approx(1.0, abs=0.5), shape
    if backend == "tensorflow":
        assert [gap.reason for gap in capture.gaps if gap.what == WHAT] == [
            "autotune is off: TensorFlow keeps no model of the pipeline"
        ]
        check_details(calls, capture)


def check_details(calls: dict[str, Call], capture: Capture) -> None:
    def told(shape: str, op: str) -> dict[str, Any]:
        return next(each for each in calls[shape].info["dataset"] if each["op"] == op)

    assert told("python", "Map")["python"]
    assert not told("fused", "Map")["python"]
    assert told("cached", "Cache")["cache"] == "memory"
    assert told("parallel", "Shuffle")["random"] == "seeded"
    assert told("zipped", "Zip")["inputs"] == [5, 3]
    assert told("parallel", "Batch")["batch"] == 32
    assert told("parallel", "ParallelMap")["bytes"] == 17 * 4
    assert told("fixed", "Prefetch")["buffer"] == 3
    nodes = {node.name: node for node in live(capture.operators, frozenset({calls["fixed"].id}))}
    fixed = next(node for node in nodes.values() if plain(node.name) in ("Map", "MapAndBatch"))
    assert fixed.parallel is not None
    assert (fixed.parallel.value, fixed.parallel.tuned) == (2, False)
    tuned = [node for node in live(capture.operators, frozenset({calls["parallel"].id})) if node.parallel is not None]
    assert any(node.parallel is not None and node.parallel.tuned for node in tuned)


LOOP = """
import keras
import tensorflow as tf

data = tf.data.Dataset.range(10**6).map(lambda n: tf.random.stateless_normal((8,), [n, 0]), num_parallel_calls=2)
data = data.batch(16)
held = iter(tf.data.Dataset.range(10).batch(2))
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(64), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x, training=True) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


for number, batch in enumerate(data.take(2500)):
    step(batch)
next(held)
"""


@pytest.mark.framework
def test_a_hand_written_loop(doctor: Doctor) -> None:
    seen = doctor.run("--whole", "--quiet", str(doctor.script(LOOP)), backend="tensorflow")
    assert seen.code == 0, seen.err
    capture = seen.capture
    (loop,) = (call for call in capture.calls if call.kind == "loop")
    assert [each["op"] for each in loop.info["dataset"]] == ["Take", "Batch", "ParallelMap", "Range"]
    assert loop.info["dataset"][1]["built"][1] == 6
    ran, _ = matched(capture, loop)
    assert dict(ran)["ParallelMap"] is not None


# --- where they were built ----------------------------------------------------------------------------


@pytest.mark.framework
def test_the_line_of_every_operator(doctor: Doctor, tmp_path: Path) -> None:
    script = doctor.script(SCRIPT.with_name("built_datasets.py").read_text())
    lines = script.read_text().splitlines()
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    done = doctor.plain(str(script), str(folder), backend="tensorflow")
    assert done.code == 0, done.err
    told = json.loads(done.out.strip().splitlines()[-1])
    assert told["as_before"]

    def line(mark: str) -> list[Any]:
        return ["train.py", next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))]

    seen = {name: {op: [path, at] for op, path, at in found} for name, found in told["seen"].items()}
    assert seen["chain"] == {
        "Prefetch": line("chain: Prefetch"),
        "Batch": line("chain: Batch"),
        "ParallelMap": line("chain: Map"),
        "Range": line("all: Range"),
    }
    assert seen["helper"]["Shuffle"] == line("helper: Shuffle")
    assert seen["elsewhere"]["Batch"] == ["elsewhere.py", 3]
    assert seen["elsewhere"]["Map"] == ["elsewhere.py", 2]
    assert {tuple(at) for at in seen["pictures"].values()} == {tuple(line("pictures"))}
    assert seen["zip"]["Zip"] == line("zip: Zip")
    assert seen["zip"]["Shuffle"] == line("helper: Shuffle")
    assert {tuple(at) for at in seen["after"].values()} == {("", 0)}, "nothing is noted once nobody watches"
    check_described(told["described"])


def check_described(said: dict[str, dict[str, Any]]) -> None:
    drawn = {name: each.get("random") for name, each in said.items() if each.get("random")}
    assert drawn == {
        "unseeded": "unseeded",
        "seeded": "seeded",
        "stateless": "stateless",
        "generator": "generator",
        "nested": "unseeded",
        "shuffle": "unseeded",
        "seeded shuffle": "seeded",
    }
    assert [name for name, each in said.items() if each.get("python")] == ["python"]
    assert (said["memory"]["cache"], said["file"]["cache"]) == ("memory", "file")
    assert "secret" not in json.dumps(said)
    assert (said["batch"]["batch"], said["batch"]["elements"], said["batch"]["bytes"]) == (4, 2, 32)
    assert "elements" not in said["filter"]
    assert said["endless"]["elements"] == "infinite"
    assert (said["words"]["elements"], "bytes" in said["words"]) == (2, False)

"""Reading results back: whose time it is, on which line, and that nothing else changes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from fitdoctor.diagnosis import diagnose
from fitdoctor.facts import resolve
from fitdoctor.facts.step_model import StepModel
from fitdoctor.probes import account as acc
from fitdoctor.probes.install import Patches, strip
from fitdoctor.probes.reads import ReadProbe
from fitdoctor.probes.recorder import Recorder
from fitdoctor.probes.steps import Tracker
from tests.conftest import Doctor

LOOP = """
import os, sys
os.environ["KERAS_BACKEND"] = "jax"
import jax, keras, numpy as np

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(512), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.001)
optimizer.build(model.trainable_variables)
x = np.ones((256, 64), "float32")

def lose(trainable):
    return keras.ops.mean(model.stateless_call(trainable, [], x)[0] ** 2)

@jax.jit
def train_step(state):
    loss, gradients = jax.value_and_grad(lose)(state[0])
    return loss, optimizer.stateless_apply(state[1], gradients, state[0])

state = [v.value for v in model.trainable_variables], [v.value for v in optimizer.variables]
total = 0.0
for step in range(int(sys.argv[1])):
    loss, state = train_step(state)
    total += float(loss)
    if step % 10 == 9:
        total += loss.item() + jax.block_until_ready(loss).tolist()
print(repr(total))
"""


class Sink:
    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {}

    def write(self, rows: Any) -> None:
        for table, values in rows.items():
            self.rows.setdefault(table, []).extend(values)


class Watched:
    """A tracker on a clock that we turn."""

    def __init__(self) -> None:
        self.now = 0
        self.sink = Sink()
        self.recorder = Recorder(self.sink, 0, lambda: self.now)
        self.tracker = Tracker(self.recorder)
        self.probe = ReadProbe(self.tracker, Patches(self.recorder))

    def pass_time(self, ns: int) -> int:
        self.now += ns
        return ns

    def reading(self) -> Callable[..., Any]:
        return self.probe.timed(self.pass_time)


def test_a_read_in_a_loop_is_blocked_time_of_its_line() -> None:
    watched = Watched()
    read = watched.reading()
    watched.tracker.begin_loop(None, "loop", compiled=True)
    for _ in range(3):
        watched.pass_time(5)
        assert read(7) == 7
    watched.recorder.flush()
    ((call, path, _, symbol, count, total),) = watched.sink.rows["reads"]
    assert (call, symbol, count, total) == (1, "test_a_read_in_a_loop_is_blocked_time_of_its_line", 3, 21)
    assert path == __file__
    assert watched.tracker.account.totals[acc.SYNC] == 21


def test_outside_of_a_loop_nothing_is_noted() -> None:
    watched = Watched()
    read = watched.reading()
    assert read(7) == 7
    loop = watched.tracker.begin_loop(None, "loop", compiled=True)
    assert loop is not None
    call = watched.tracker.begin("predict", None, acc.REST)
    assert call is not None
    assert read(7) == 7
    watched.recorder.flush()
    assert "reads" not in watched.sink.rows
    assert watched.tracker.account.totals[acc.SYNC] == 0


def test_what_a_read_raises_is_raised_without_our_frames() -> None:
    watched = Watched()

    def fail() -> None:
        raise ValueError("deleted")

    read = watched.probe.timed(fail)
    watched.tracker.begin_loop(None, "loop", compiled=True)
    with pytest.raises(ValueError, match="deleted") as caught:
        read()
    if sys.version_info < (3, 11):  # a frame that raises again cannot be taken out on the way
        strip(caught.value)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "read" not in names[1:]
    assert watched.tracker.account.depth == 1


def test_a_failure_of_ours_lets_go_and_returns_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    read = watched.reading()
    watched.tracker.begin_loop(None, "loop", compiled=True)

    def fail() -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("fitdoctor.probes.reads.user_site", fail)
    assert read(7) == 7
    assert not watched.recorder.live


@pytest.mark.framework
def test_reads_of_a_jax_loop_are_seen_and_change_nothing(doctor: Doctor) -> None:
    script = str(doctor.script(LOOP))
    plain = doctor.plain(script, "60", backend="jax")
    ran = doctor.run("--whole", script, "60", backend="jax")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[0] == plain.out.splitlines()[0]
    capture = ran.capture
    lines = {read.site.line: read for read in capture.reads}
    assert lines[24].count >= 55
    # `item`, `block_until_ready` and `tolist`, every tenth step.
    assert 15 <= lines[26].count <= 18
    assert not [gap for gap in capture.gaps if "probe on jax" in gap.what or "reading" in gap.what]
    steps = capture.steps[next(iter(capture.steps))]
    assert int(steps.sync_ns.sum()) > 0
    assert "line 24 waits for each step's results" in resolve(capture).get(StepModel).how["sync"]
    report = diagnose(capture)
    judged = [each.rule for group in (report.findings, report.passed, report.unknown) for each in group]
    assert "host-sync" in judged


@pytest.mark.framework
def test_the_lab_runs_the_step_beside_as_much_python(doctor: Doctor) -> None:
    script = doctor.script(LOOP.replace("    if step %", "    np.sort(np.random.rand(50000))\n    if step %"))
    ran = doctor.run("--steps", "40", "--budget", "10", str(script), "100000", backend="jax", lab=True)
    assert ran.code == 0, ran.err
    capture = ran.capture
    (trial,) = capture.trials
    assert trial.name == "Python beside the device"
    assert len(trial.baseline_ns) == len(trial.changed_ns) >= 3
    assert trial.detail["python_ns"] > 0
    report = diagnose(capture)
    judged = [each.rule for group in (report.findings, report.passed) for each in group]
    assert "host-sync" in judged

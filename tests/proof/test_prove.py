"""The logic of a proof, with runs and a clock that are made up; and one real proof."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from fitdoctor.model import Interval, Proof
from fitdoctor.proof.equivalence import Learning
from fitdoctor.proof.prove import FEWEST_PAIRS, IN_A_ROW, MOST_PAIRS, long_enough, prove
from fitdoctor.proof.runs import Run
from fitdoctor.proof.verdict import judge
from fitdoctor.report import proof as rendered
from tests.conftest import Doctor

SAME = Learning("identical", "all runs came to a loss of 0.5")


class World:
    """Runs that take a made-up time, on a clock that they move."""

    def __init__(self, noise: float, seed: int = 0) -> None:
        self.now, self.order = 0.0, list[str]()
        self._noise, self._random = noise, random.Random(seed)

    def version(
        self, name: str, seconds: float, loss: float = 0.5, stops: float = 100, first: float = 0.7
    ) -> Callable[..., Run]:
        def once(*, aligned: bool = False) -> Run:
            took = seconds * self._random.lognormvariate(0, self._noise)
            self.now += 10.0
            self.order.append(name)
            return Run(took, took / 100, {(0, 128.0 if aligned else stops): loss}, first={(0, 2.0): first})

        return once


def proved(world: World, before: float, after: float, loss: float = 0.5, budget: float = 1e6, **more: bool):
    return prove(
        world.version("before", before),
        world.version("after", after, loss),
        seconds=budget,
        clock=lambda: world.now,
        **more,
    )


def test_versions_that_make_several_steps_at_a_time_are_stopped_where_both_can() -> None:
    world = World(0.02)
    versions = world.version("before", 20.0), world.version("after", 10.0, stops=120)
    found = prove(*versions, seconds=1e6, clock=lambda: world.now)
    assert (found.verdict, found.learning) == ("PROVED", "identical")


def test_twice_as_fast() -> None:
    world = World(0.02)
    found = proved(world, 20.0, 10.0)
    assert found.verdict == "PROVED"
    assert found.speedup.low < 2 < found.speedup.high
    assert found.learning == "identical"
    assert len(found.schedule) == 2 * (FEWEST_PAIRS + IN_A_ROW - 1), "that much is clear after a few"
    assert world.order[:6] == ["before", "after", "before", "after", "after", "before"], "warmed up, then in turns"
    assert found.schedule == tuple(world.order[2:])


def test_the_same_against_itself_has_no_effect() -> None:
    verdicts = [proved(World(0.02, seed), 20.0, 20.0).verdict for seed in range(100)]
    assert verdicts.count("NO_EFFECT") >= 95, verdicts


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.05, 0.2])
@pytest.mark.parametrize("truth", [1.0, 1.3, 2.0])
def test_it_holds_the_truth_19_times_in_20_although_it_stops_when_it_likes(noise: float, truth: float) -> None:
    """Looking after every pair and stopping where the interval is tight makes it too narrow, if nothing pays for it."""
    found = [proved(World(noise, seed), 20.0 * truth, 20.0) for seed in range(600)]
    held = sum(each.speedup.low <= truth <= each.speedup.high for each in found) / len(found)
    assert 0.92 <= held <= 0.98
    if truth == 1.0:
        # What an interval of 95 % misses, on either side: where runs scatter by much, all of that is a wrong verdict.
        assert sum(each.verdict in ("PROVED", "REFUTED") for each in found) / len(found) <= 0.05


def test_runs_of_short_steps_are_watched_longer() -> None:
    def run(step_s: float, planned: int = 10**6) -> Run:
        return Run(1.0, step_s, {}, planned)

    assert long_enough([run(0.05), run(0.02)], 200) == 200, "long enough as it is"
    assert long_enough([run(0.001), run(0.001)], 200) == 2000
    assert long_enough([run(0.01), run(0.001)], 200) == 800, "the slower one does not take forever"
    assert long_enough([run(0.001, 1000), run(0.001, 1000)], 200) == 700, "a short training is not run to its end"
    watched: list[int | None] = []

    def version(*, aligned: bool = False, steps: int | None = None) -> Run:
        watched.append(steps)
        return run(0.001)

    prove(version, version, seconds=1e6, watched=200)
    assert watched[:3] == [None, None, 2000]
    prove(version, version, seconds=1e6)
    assert watched[-1] is None


def test_slower_is_refuted() -> None:
    assert proved(World(0.02), 10.0, 13.0).verdict == "REFUTED"


def test_a_noisy_machine_cannot_tell_little() -> None:
    found = proved(World(0.5), 20.0, 19.0)
    assert found.verdict == "INCONCLUSIVE"
    assert len(found.schedule) == 2 * MOST_PAIRS
    assert "--budget" in found.because


def test_what_learns_something_else_is_refuted_however_fast() -> None:
    found = proved(World(0.02), 20.0, 5.0, loss=0.9)
    assert (found.verdict, found.learning) == ("REFUTED", "different")
    assert "does not learn the same" in found.because
    allowed = proved(World(0.02), 20.0, 5.0, loss=0.9, may_change=True)
    assert (allowed.verdict, allowed.learning) == ("PROVED", "different")


def test_other_batches_are_refuted_though_it_comes_to_nearly_the_same_loss() -> None:
    def found(may_change: bool) -> Proof:
        world = World(0.02)
        versions = world.version("before", 20.0), world.version("after", 10.0, 0.5001, first=0.9)
        return prove(*versions, seconds=1e6, may_change=may_change, clock=lambda: world.now)

    refuted = found(may_change=False)
    assert (refuted.verdict, refuted.learning) == ("REFUTED", "different")
    assert "the first batches give another loss: 0.7 before, 0.9 after" in refuted.because
    assert (found(may_change=True).verdict, found(may_change=True).learning) == ("PROVED", "different")


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
@pytest.mark.parametrize("may_change", [True, False])
def test_what_learns_nothing_any_more_is_refuted_whatever_was_consented_to(loss: float, may_change: bool) -> None:
    found = proved(World(0.02), 20.0, 5.0, loss=loss, may_change=may_change)
    assert found.verdict == "REFUTED"
    assert "a loss is not a number" in found.because
    told = json.loads(rendered.dumps(found), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert told["equivalence"]["losses"][1][0] is None


def test_steps_that_do_not_all_come_into_a_run_are_fewer_in_all_of_them() -> None:
    """Else a training of slow steps would be stopped anywhere, and nothing it learns compared."""
    world = World(0.02)
    came = {"before": 118, "after": 150}
    asked: set[tuple[str, int | None]] = set()

    def version(name: str, seconds: float, loss: float) -> Callable[..., Run]:
        once = world.version(name, seconds)

        def cut(*, steps: int | None = None) -> Run:
            asked.add((name, steps))
            came[name] += 1
            stops = came[name] if steps is None or steps > came[name] else steps
            return replace(once(), learning={(0, 3.0 + stops): loss}, cut=stops if stops != steps else 0)

        return cut

    for loss, verdict, learning in ((0.5, "PROVED", "identical"), (0.7, "REFUTED", "different")):
        versions = version("before", 20.0, 0.5), version("after", 10.0, loss)
        found = prove(*versions, seconds=1e6, clock=lambda: world.now, watched=200)
        assert (found.verdict, found.learning) == (verdict, learning)
    assert {name for name, steps in asked if steps is not None} == {"before", "after"}
    assert max(steps for _, steps in asked if steps is not None) < 118


def test_what_comes_in_no_time_is_not_asked_for_where_its_steps_are_short() -> None:
    """Long pauses between the epochs end a run, however short its steps: more of them do not come either."""
    asked: list[int | None] = []

    def version(*, steps: int | None = None) -> Run:
        asked.append(steps)
        stops = 100 + len(asked) if steps is None or steps > 100 else steps
        return Run(60.0, 0.001, {(0, 3.0 + stops): 0.5}, 10**6, cut=stops if stops != steps else 0)

    assert prove(version, version, seconds=1e6, watched=200).learning == "identical"
    assert set(asked[2:]) == {70}


def test_a_training_that_ends_on_a_loss_that_is_no_number_is_refuted() -> None:
    """It stops at another step, since a callback ends it, and that must not hide it."""
    world = World(0.02)
    versions = world.version("before", 20.0), world.version("after", 5.0, float("nan"), stops=12)
    for more in ({}, {"may_change": True, "incomparable": "batches are of another size"}):
        found = prove(*versions, seconds=1e6, clock=lambda: world.now, **more)
        assert (found.verdict, found.learning) == ("REFUTED", "different")


def long(world: World, seconds: float, length: tuple[int, int], losses: dict[tuple[int, float], float]):
    once = world.version("either", seconds)
    return lambda **more: replace(once(**more), length=length, learning=losses)


def test_a_training_of_fewer_steps_is_not_the_same_training() -> None:
    world = World(0.02)
    losses = {(0, math.inf): 0.5}
    versions = long(world, 20.0, (100, 10), losses), long(world, 2.0, (100, 1), losses)
    found = prove(*versions, seconds=1e6, clock=lambda: world.now)
    assert (found.verdict, found.learning) == ("REFUTED", "different")
    assert "the training has 1,000 steps before, 100 after" in found.because
    told = prove(*versions, seconds=1e6, clock=lambda: world.now, may_change=True)
    assert (told.verdict, told.learning) == ("PROVED", "different")
    assert "the training has 1,000 steps before, 100 after" in told.because


@pytest.mark.parametrize(
    ("epoch", "factor", "verdict", "learning"),
    [(50, 1.0, "PROVED", "within rounding"), (50, 1.2, "REFUTED", "different"), (12, 1.0, "PROVED", "not compared")],
)
def test_data_repeated_within_longer_epochs_learns_the_same(
    epoch: int, factor: float, verdict: str, learning: str
) -> None:
    """Epochs of one number are not at the same place: what ten short ones come to is what a long one comes to."""
    world = World(0.02)
    short = {(each, math.inf): 1 / (each + 1) for each in range(40)}
    longer = {
        (each, math.inf): factor * sum(1 / (number + 1) for number in range(10 * each, 10 * each + 10)) / 10
        for each in range(4)
    }
    versions = long(world, 20.0, (5, 3600), short), long(world, 10.0, (epoch, 18000 // epoch), longer)
    found = prove(*versions, seconds=1e6, clock=lambda: world.now)
    assert (found.verdict, found.learning) == (verdict, learning)


@pytest.mark.parametrize(
    ("after", "verdict", "learning", "because"),
    [
        ({(0, 200.0): 0.5}, "PROVED", "not compared", "did not come to the end of an epoch of 1,000 steps"),
        ({(0, 200.0): math.nan}, "REFUTED", "different", "a loss is not a number"),
    ],
)
def test_a_long_epoch_that_does_not_end(
    after: dict[tuple[int, float], float], verdict: str, learning: str, because: str
) -> None:
    world = World(0.02)
    short = {(each, math.inf): 0.5 for each in range(20)}
    versions = long(world, 20.0, (10, 1000), short), long(world, 10.0, (1000, 10), after)
    found = prove(*versions, seconds=1e6, clock=lambda: world.now)
    assert (found.verdict, found.learning) == (verdict, learning)
    assert because in found.because


@pytest.mark.parametrize(("first", "verdict"), [(0.7, "PROVED"), (0.9, "REFUTED")])
def test_epochs_of_any_length_begin_with_the_same_batches(first: float, verdict: str) -> None:
    world = World(0.02)
    after = world.version("after", 10.0, first=first)
    versions = long(world, 20.0, (10, 12), {(0, math.inf): 0.5}), lambda **more: replace(after(**more), length=(12, 10))
    found = prove(*versions, seconds=1e6, clock=lambda: world.now)
    assert found.verdict == verdict, found.because


def test_a_short_budget_ends_it() -> None:
    world = World(0.3)
    found = proved(world, 20.0, 19.0, budget=90.0)
    assert 2 <= len(found.schedule) // 2 <= FEWEST_PAIRS
    assert world.now <= 110.0


@pytest.mark.parametrize(
    ("speedup", "width", "verdict"),
    [
        (Interval(1.2, 1.3, 1.4), 0.08, "PROVED"),
        (Interval(1.005, 1.02, 1.03), 0.01, "NO_EFFECT"),
        (Interval(0.97, 1.0, 1.03), 0.03, "NO_EFFECT"),
        (Interval(0.8, 1.1, 1.5), 0.35, "INCONCLUSIVE"),
        (Interval(0.8, 0.9, 0.95), 0.08, "REFUTED"),
    ],
)
def test_verdicts(speedup: Interval, width: float, verdict: str) -> None:
    assert judge(speedup, width, SAME, may_change=False)[0] == verdict


def test_it_is_told_with_its_intervals() -> None:
    found = proved(World(0.02), 20.0, 10.0)
    text = rendered.text(found)
    assert text.startswith("PROVED: the training is ")
    assert "5 pairs of fresh processes" in text
    told = json.loads(rendered.dumps(found))
    assert told["verdict"] == "PROVED"
    assert set(told["speedup"]) == {"low", "mid", "high"}


SCRIPT = """
import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).standard_normal((8192, 16)).astype("float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly=EAGERLY)
model.fit(x, x[:, :1], batch_size=32, epochs=20, shuffle=False, verbose=0)
"""


@pytest.mark.framework
@pytest.mark.slow
def test_a_real_proof(doctor: Doctor) -> None:
    for name, eagerly in (("before", "True"), ("after", "False")):
        doctor.script(SCRIPT.replace("EAGERLY", eagerly), f"{name}.py")
    done = doctor.plain(
        *(
            "-m",
            "fitdoctor",
            "prove",
            "--budget",
            "60",
            "--steps",
            "50",
            "--json",
            "proof.json",
            "before.py",
            "after.py",
        ),
        backend="tensorflow",
        timeout=400,
    )
    found = json.loads((doctor.work / "proof.json").read_text())
    assert done.code == 0, done.err
    assert found["verdict"] == "PROVED"
    assert found["speedup"]["low"] > 2, "op by op such a step takes several times as long"
    assert found["equivalence"]["kind"] in ("identical", "within rounding")
    assert "PROVED" in done.out


def test_a_script_that_is_not_there(doctor: Doctor) -> None:
    doctor.script("print()", "there.py")
    done = doctor.plain("-m", "fitdoctor", "prove", "there.py", "ther.py")
    assert done.code == 2
    assert "did you mean `there.py`?" in done.err


@pytest.mark.parametrize(
    ("typed", "ours", "theirs"),
    [
        ("train.py --fix serial-map", "--fix serial-map", "train.py"),
        ("--quiet train.py --fix serial-map --budget 60", "--quiet --fix serial-map --budget 60", "train.py"),
        ("train.py --fix=serial-map --epochs 5", "--fix=serial-map", "train.py --epochs 5"),
        ("-m pack.train --fix serial-map 5", "--fix serial-map", "-m pack.train 5"),
        ("--fix serial-map train.py --steps 5", "--fix serial-map", "train.py --steps 5"),
        ("one.py other.py --fix it", "", "one.py other.py --fix it"),
        ("one.py --steps 5", "", "one.py --steps 5"),
    ],
)
def test_the_rule_may_be_named_after_the_script(typed: str, ours: str, theirs: str) -> None:
    from fitdoctor.cli.prove import split

    assert split(typed.split()) == (ours.split(), theirs.split())

"""What is searched on which script, and why the rest is not."""

from __future__ import annotations

from typing import Any

import pytest

from fitdoctor.tune import knobs
from fitdoctor.tune.settings import NAMES, SAFETY, Settings, not_applied
from tests.tune.world import seen

EVERY = ("tensorflow", "jax", "torch")


def why(name: str, installed: tuple[str, ...] = EVERY, **about: Any) -> str:
    """Return why a knob is not searched; nothing where it is."""
    space = knobs.space(seen(**about), installed, unsafe=True)
    return next((each.why for each in space.left_out if each.name == name), "")


def values(name: str, **about: Any) -> tuple[Any, ...]:
    space = knobs.space(seen(**about), EVERY, unsafe=True)
    return next((each.values for each in space.knobs if each.name == name), ())


def test_the_names_are_the_same_everywhere() -> None:
    assert knobs.KNOBS == NAMES == tuple(SAFETY)


def test_by_default_only_what_learns_the_same() -> None:
    space = knobs.space(seen(), EVERY)
    assert [each.name for each in space.knobs] == ["steps_per_execution", "jit_compile"]
    assert space.own == {"steps_per_execution": 1, "jit_compile": False}
    assert space.size == 6
    told = {each.name: each.why for each in space.left_out}
    assert set(told) == set(NAMES) - {"steps_per_execution", "jit_compile"}
    assert all("--unsafe" in told[name] for name in ("batch_size", "precision", "backend"))


def test_unsafe_adds_the_rest() -> None:
    space = knobs.space(seen(), EVERY, unsafe=True)
    assert {each.name for each in space.knobs} == set(NAMES) - {"workers", "prefetch"}
    assert space.settings({**space.own, "batch_size": 64}) == Settings(batch_size=64)
    assert space.settings(space.own) == Settings()


def test_only_these() -> None:
    space = knobs.space(seen(), EVERY, only={"jit_compile"})
    assert [each.name for each in space.knobs] == ["jit_compile"]
    assert all(each.why == "not asked for: --only" for each in space.left_out)


def test_a_space_survives_being_kept() -> None:
    space = knobs.space(seen(), EVERY, unsafe=True)
    assert knobs.Space.of(space.data()) == space


@pytest.mark.parametrize(
    ("name", "about", "reason"),
    [
        ("steps_per_execution", {"backend": "torch"}, "PyTorch"),
        ("steps_per_execution", {"run_eagerly": True}, "run_eagerly"),
        ("steps_per_execution", {"steps_per_epoch": 4}, "an epoch has 4 steps"),
        ("steps_per_execution", {"batch_callbacks": ["Watch"]}, "Watch is called for every batch"),
        ("steps_per_execution", {"kind": "train_on_batch"}, "only fit"),
        ("jit_compile", {"backend": "torch"}, "PyTorch"),
        ("jit_compile", {"backend": "jax", "jit_compile": True}, "already"),
        ("workers", {}, "data in arrays has no workers"),
        ("workers", {"adapter": "tf.data"}, "a tf.data pipeline has no workers"),
        ("prefetch", {}, "no tf.data pipeline"),
        ("prefetch", {"adapter": "tf.data", "prefetch": True}, "already"),
        ("batch_size", {"adapter": "PyDataset"}, "makes its batches itself"),
        ("batch_size", {"adapter": "tf.data", "operators": ["Map", "Batch"]}, "plain batch: Map after Batch"),
        ("batch_size", {"schedule": "CosineDecay"}, "CosineDecay, which counts steps"),
        ("batch_size", {"steps_given": True}, "steps_per_epoch"),
        ("batch_size", {"custom_train_step": True}, "train_step"),
        ("batch_size", {"steps_per_epoch": 10}, "too few would be left"),
        ("precision", {"precision": "mixed_bfloat16"}, "computes in mixed_bfloat16"),
        ("backend", {"pinned": "it calls tensorflow by name (train.py:3)"}, "train.py:3"),
        ("backend", {"custom_train_step": True}, "written for tensorflow"),
    ],
)
def test_what_does_not_apply_is_told(name: str, about: dict[str, Any], reason: str) -> None:
    assert reason in why(name, **about)


def test_a_backend_that_is_not_there() -> None:
    assert why("backend", installed=("tensorflow",)) == "no other backend is installed"


def test_values() -> None:
    assert values("steps_per_execution", steps_per_epoch=20) == (1, 8)
    assert values("steps_per_execution", steps_per_execution=8) == (8, 32)
    assert values("jit_compile", jit_compile=True) == (True, False)
    assert values("batch_size") == (32, 64, 128, 256)
    assert values("batch_size", steps_per_epoch=32) == (32, 64, 128)
    assert values("workers", adapter="PyDataset", workers=1) == (1, 2, 4)
    assert values("prefetch", adapter="tf.data") == (False, True)
    assert values("precision") == ("float32", "mixed_bfloat16")
    assert values("precision", weights_on=["gpu"]) == ("float32", "mixed_bfloat16", "mixed_float16")
    assert values("backend", backend="jax") == ("jax", "tensorflow", "torch")


def test_worker_threads_are_safe_processes_are_not() -> None:
    def safety(**about: Any) -> str:
        space = knobs.space(seen(workers=1, **about), EVERY, unsafe=True)
        return next(each.safety for each in space.knobs if each.name == "workers")

    assert safety(adapter="PyDataset", shuffled=False) == "same"
    assert safety(adapter="PyDataset") == "may change", "fit shuffles where nothing is said"
    assert safety(adapter="PyDataset", multiprocessing=True) == "may change"
    assert safety(adapter="DataLoader") == "may change"


def test_some_knobs_are_not_there_on_every_backend() -> None:
    space = knobs.space(seen(), EVERY, unsafe=True, only={"backend", "steps_per_execution", "jit_compile"})
    assert space.applies("steps_per_execution", "jax")
    assert not space.applies("steps_per_execution", "torch")
    assert not space.applies("jit_compile", "jax")
    assert space.size == 3 * 2 + 3 + 1


def test_settings_are_read_back() -> None:
    settings = Settings(steps_per_execution=8, jit_compile=True)
    assert Settings.of(settings.data()) == settings
    assert str(settings) == "steps_per_execution=8, jit_compile=True"
    assert str(Settings()) == "as the script has it"
    assert not_applied(settings, {"steps_per_execution": 8, "jit_compile": True}) == ""
    missed = not_applied(settings, {"steps_per_execution": 1, "jit_compile": True})
    assert missed == "steps_per_execution=8 did not take effect: the run had 1"

"""The lab on real frameworks: everything is as it was, whatever was tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.lab.experiments import half_precision
from tests.conftest import Doctor

SCRIPT = Path(__file__).parent / "every_experiment.py"
BACKENDS = ["tensorflow", "jax", "torch"]


def lab(doctor: Doctor, backend: str, order: str) -> dict[str, Any]:
    ran = doctor.plain(str(SCRIPT), order, backend=backend)
    assert ran.code == 0, ran.err
    return dict(json.loads(ran.out.strip().splitlines()[-1]))


@pytest.mark.framework
@pytest.mark.parametrize("backend", BACKENDS)
def test_after_every_experiment_the_state_is_bit_for_bit_what_it_was(doctor: Doctor, backend: str) -> None:
    seen = lab(doctor, backend, "forwards")
    assert seen["differs"] == []
    assert all(seen["settings"])
    expected = {"cached batch", "loader alone", "callbacks off", "metrics off", "idle step", "batch size x2"}
    expected |= {"mixed_bfloat16"}
    if backend != "torch":
        expected |= {"steps_per_execution=8"}
    if backend == "tensorflow":
        expected |= {"jit_compile=True"}
    assert expected <= set(seen["trials"]), seen["gaps"]


@pytest.mark.framework
def test_an_experiment_that_raises_is_a_gap_and_leaves_the_state(doctor: Doctor) -> None:
    seen = lab(doctor, "jax", "raises")
    assert seen["differs"] == []
    assert all(seen["settings"])
    assert "loader alone" in seen["trials"]
    failed = [reason for what, reason in seen["gaps"] if what == "experiment: one cached batch"]
    assert failed
    assert "RuntimeError at every_experiment.py" in failed[0]
    assert "metrics off" in seen["trials"], "experiments without the failing callback still run"


@pytest.mark.framework
def test_a_state_that_does_not_fit_twice_leaves_what_reads_only(doctor: Doctor) -> None:
    seen = lab(doctor, "jax", "no memory")
    assert seen["differs"] == []
    assert all(seen["settings"])
    assert set(seen["trials"]) == {"loader alone"}
    missing = dict(seen["gaps"])
    assert {"experiment: one cached batch", "experiment: metrics off", "experiment: batch size"} <= set(missing)
    assert all("a copy of the model's state takes" in reason for reason in missing.values())


@pytest.mark.framework
def test_in_another_order_the_state_is_as_it_was_too(doctor: Doctor) -> None:
    seen = lab(doctor, "torch", "backwards")
    assert seen["differs"] == []
    assert all(seen["settings"])


def more(doctor: Doctor, backend: str, kind: str) -> dict[str, Any]:
    ran = doctor.plain(str(SCRIPT.with_name("more_experiments.py")), kind, backend=backend)
    assert ran.code == 0, ran.err
    seen = dict(json.loads(ran.out.strip().splitlines()[-1]))
    assert seen["differs"] == []
    assert all(seen["settings"])
    return seen


@pytest.mark.framework
@pytest.mark.parametrize("backend", BACKENDS)
def test_single_precision_and_class_numbers(doctor: Doctor, backend: str) -> None:
    seen = more(doctor, backend, "arrays")
    assert set(seen["trials"]) == {"float32", "sparse targets", "epoch begun on sparse targets"}, seen["gaps"]
    assert seen["trials"]["sparse targets"]["classes"] == 8
    assert seen["trials"]["sparse targets"]["arrays"] is True


CACHED = "rewrite: repeated-preprocessing [kept in memory after the first epoch]"


@pytest.mark.framework
def test_a_pipeline_is_rewritten_and_what_cannot_be_is_said(doctor: Doctor) -> None:
    seen = more(doctor, "tensorflow", "pipeline")
    cached = seen["trials"][CACHED]
    assert cached["elements"] == 640
    assert cached["element_bytes"] == 16 * 8 + 8 * 8
    assert cached["after"] == "Map"
    assert (cached["safety"], cached["equal"]) == ("same", "identical")
    assert cached["compared"] > 0
    parallel = seen["trials"]["rewrite: serial-map [2 calls at a time]"]
    assert (parallel["safety"], parallel["equal"]) == ("may change", ""), "random numbers go to other elements"
    assert "num_parallel_calls=2" in parallel["code"]
    refused = dict(seen["gaps"])
    assert "random numbers" in refused["experiment: rewrite per-element-map"]
    assert "nothing to wait for" in refused["experiment: rewrite starved-reads"]
    pulled = {name: detail["of"] for name, detail in seen["trials"].items() if name.startswith("prefix")}
    stages = ("TensorSlice", "Map", "Shuffle", "Map", "Batch", "Map")
    assert pulled == {f"prefix {place}: {op}": 7 for place, op in enumerate(stages)}


@pytest.mark.framework
def test_a_generator_without_its_pipeline(doctor: Doctor) -> None:
    seen = more(doctor, "jax", "generator")
    assert seen["trials"]["generator alone"]["symbol"] == "samples", seen["gaps"]
    assert CACHED not in seen["trials"], "a generator may do more than yield"


@pytest.mark.framework
def test_a_data_loader_with_worker_processes(doctor: Doctor) -> None:
    seen = more(doctor, "torch", "loader")
    tried = {name: detail["own"] for name, detail in seen["trials"].items()}
    assert tried == {"workers=2": 0, "workers=4": 0, "workers=8": 0}, seen["gaps"]


@pytest.mark.parametrize(
    ("flags", "policy"), [("fpu sse avx2", None), ("fpu amx_bf16 avx512f", "mixed_bfloat16")], ids=["without", "with"]
)
def test_16_bits_are_tried_where_the_processor_has_arithmetic_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, policy: str | None
) -> None:
    monkeypatch.setattr(half_precision, "_capability", lambda backend: None)
    (tmp_path / "cpuinfo").write_text(f"processor: 0\nflags: {flags}\n")
    assert half_precision.best("torch", tmp_path / "cpuinfo") == policy
    assert half_precision.best("torch", tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("capability", "policy"), [((8, 0), "mixed_bfloat16"), ((7, 5), "mixed_float16"), ((6, 1), None)]
)
def test_16_bits_are_tried_where_the_gpu_has_arithmetic_for_them(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], policy: str | None
) -> None:
    monkeypatch.setattr(half_precision, "_capability", lambda backend: capability)
    assert half_precision.best("torch") == policy

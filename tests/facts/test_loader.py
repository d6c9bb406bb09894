"""What is known of a loader, and what the cores leave for its workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import resolve
from fitdoctor.facts.loader import Loader
from fitdoctor.facts.step_model import StepModel
from fitdoctor.model import Gap
from tests.captures.build import Run

SEEN = {
    "made": 100, "wall_ns": 2_000_000_000, "cpu_ns": 500_000_000, "asked": 50, "empty": 20, "early": 5,
    "depths": [0, 1, 3, 4], "starts": 2, "start_ns": 40_000_000, "stops": 4, "stop_ns": 440_000_000,
}  # fmt: skip


def test_from_the_run_alone(tmp_path: Path) -> None:
    run = Run("jax", mode="whole").fit(adapter="PyDataset", workers=2, multiprocessing=False, loader=SEEN)
    loader = resolve(run.capture(tmp_path)).get(Loader)
    assert (loader.workers, loader.processes) == (2, False)
    assert loader.batch is not None
    assert loader.batch.mid == pytest.approx(0.02)
    assert loader.computes == pytest.approx(0.25)
    assert loader.loops is None
    assert (loader.ready, loader.empty, loader.early) == (2.0, 0.4, 0.25)
    assert (loader.start_s, loader.stop_s) == (pytest.approx(0.02), pytest.approx(0.11))


def test_what_was_not_seen_is_unknown(tmp_path: Path) -> None:
    loader = resolve(Run("jax").fit(adapter="DataLoader").capture(tmp_path)).get(Loader)
    seen = (loader.batch, loader.cpu_s, loader.computes, loader.loops, loader.ready, loader.empty, loader.early)
    assert seen == (None,) * 7
    assert (loader.start_s, loader.stop_s) == (None, None)


def test_the_lab_knows_better(tmp_path: Path) -> None:
    line = {"path": "train.py", "line": 4, "symbol": "scale", "share": 0.5}
    loop = {**line, "end_line": 6, "python_ns": 1e6, "small_ns": 2e6, "arrays": True}
    run = Run("jax").fit(adapter="PyDataset", loader=SEEN)
    run.trial("hot lines", changed_ms=8, cpu_ns=8e6, lines=[line], loops=[loop])
    loader = resolve(run.capture(tmp_path)).get(Loader)
    assert loader.batch is not None
    assert loader.batch.mid == pytest.approx(0.008, rel=0.05)
    assert loader.cpu_s == pytest.approx(0.008)
    assert str(loader.lines[0].site) == "train.py:4"
    assert loader.loops is not None
    assert (loader.loops[0].site.end_line, loader.loops[0].python_s) == (6, pytest.approx(0.001))


def test_arrays_have_no_loader(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence) as missing:
        resolve(Run("jax").fit(adapter="arrays").capture(tmp_path)).get(Loader)
    assert missing.value.gap.remedy == Gap.DOES_NOT_APPLY


@pytest.mark.parametrize(("cores", "least"), [(2.0, 0.875), (4.0, 0.4375), (1.0, 1.0)])
def test_workers_and_step_share_the_cores(tmp_path: Path, cores: float, least: float) -> None:
    run = Run("jax", cores=cores, noise=0.0).fit(adapter="PyDataset", input_ms=20, compute_ms=15)
    run.trial("loader alone", changed_ms=20, cores=1.0).trial("cached batch", changed_ms=15, cores=1.0)
    run.trial("hot lines", changed_ms=20, cpu_ns=20e6, loops=[])
    facts = resolve(run.capture(tmp_path))
    assert facts.get(Loader).least(facts.get(StepModel)) == pytest.approx(least, rel=0.01)


def test_without_the_lab_nothing_limits_them(tmp_path: Path) -> None:
    facts = resolve(Run("jax").fit(adapter="PyDataset", input_ms=20, loader=SEEN).capture(tmp_path))
    assert facts.get(Loader).least(facts.get(StepModel)) == 0.0

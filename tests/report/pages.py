"""Pages with everything in them, from captures that went through the real writer, reader and diagnosis."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from fitdoctor import pipeline
from fitdoctor.capture import store
from fitdoctor.diagnosis import diagnose
from fitdoctor.facts import resolve
from fitdoctor.facts.timeline import Timeline
from fitdoctor.model import Capture, Finding, Report
from fitdoctor.report import html
from tests.captures.build import Run
from tests.report import inputs

DIFF = (
    "--- a/train.py\n+++ b/train.py\n@@ -7 +7 @@\n-data = data.batch(32)\n"
    "+data = data.batch(32).prefetch(tf.data.AUTOTUNE)  # </script> & 'quotes' \"too\"\n"
)
PROOF: dict[str, Any] = {
    "rules": ["python-map"],
    "before_ms": {"low": 37.0, "mid": 38.0, "high": 39.0},
    "after_ms": {"low": 19.0, "mid": 20.0, "high": 21.0},
    "speedup": {"low": 1.7, "mid": 1.9, "high": 2.1},
    "predicted": {"low": 1.4, "mid": 1.8, "high": 2.6},
    "equivalence": {"kind": "identical", "losses": [[0.5], [0.5]]},
    "verdict": "PROVED",
}
LAYERS = [
    {"name": f"conv_{i}", "kind": "Conv2D", "count": 1 + i % 2, "params": 900 * i, "bytes": 64, "flops": 10**6,
     "names": [f"conv_{i}", f"again_{i}"][: 1 + i % 2], "ns": [i * 1e5, i * 1.1e5, i * 1.2e5]}
    for i in range(1, 21)
]  # fmt: skip


def busy() -> Run:
    """A run with all there is to show: a pipeline, epochs, validation, compiles, a GPU, memory, layers."""
    gpus = [[{"index": 0, "utilisation": share, "memory_used": 10**9}] for share in (0.1, 0.3, 0.2)]
    run = inputs.pipeline(epochs=3, validation_ms=300, between_ms=40, cores_busy=1.4, finished=True,
                          samples={"gpus": gpus, "rates": {"disk_read": 1e6}})  # fmt: skip
    run.trial("layers", baseline_ms=8, changed_ms=7.5, layers=LAYERS, optimizer_ns=[3e5, 3e5, 3e5])
    run._add("compiles", 1, "trace", "one_step_on_data", 1_000_000_000, 700_000_000, None, None, "{}")
    return run


def timeline_of(capture: Capture) -> Timeline:
    return resolve(capture).get(Timeline)


def full(folder: Path) -> tuple[Report, str]:
    """Return the report and the page with every section in it."""
    capture = busy().capture(folder)
    report = diagnose(capture)
    assert report.findings, report.headline
    report = dataclasses.replace(
        report, findings=(_with_diff(report.findings[0]), *report.findings[1:]), proofs=(PROOF,)
    )
    return report, html.page(report, pipeline.source_lines(capture), timeline_of(capture))


def _with_diff(finding: Finding) -> Finding:
    assert finding.fix is not None
    return dataclasses.replace(finding, fix=dataclasses.replace(finding.fix, diff=DIFF))


def long(folder: Path, steps: int = 100_000) -> str:
    """Return the page of a run of very many steps, a few of which stall."""
    capture = Run().fit(steps=steps, input_ms=1, compute_ms=2, snapshots=False, cores_busy=1.2).capture(folder)
    writer = store.Writer.reopen(capture.path)
    writer._db.execute("UPDATE steps SET wall_ns = wall_ns * 30 WHERE step % 9973 = 500")
    writer.seal()
    return pipeline.open_page(capture.path)[0]

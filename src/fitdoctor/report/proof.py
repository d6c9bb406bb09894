"""A proof as a person reads it, and as data."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from fitdoctor import units
from fitdoctor.model import Interval, Proof


def text(proof: Proof) -> str:
    """Return a proof in a few lines."""
    count = len(proof.schedule) // 2
    if not count:
        return f"{proof.verdict}: {proof.because}."
    predicted = [f"  predicted     {units.times_exact(proof.predicted)} as fast"] if proof.predicted is not None else []
    return "\n".join(
        [
            f"{proof.verdict}: {proof.because}.",
            "",
            f"  the training  {units.duration_range(proof.before_s)} before, "
            f"{units.duration_range(proof.after_s)} after",
            f"  a step        {units.duration_range(proof.before_ms.scale(1e-3))} before, "
            f"{units.duration_range(proof.after_ms.scale(1e-3))} after",
            *predicted,
            f"  learning      {proof.learning}",
            f"  measured      {count} pairs of fresh processes in turns, after one run of each to warm up; the "
            "training without imports and set-up, projected to its end",
            "  conditions    files are in memory for both, as after a first run; the processor's clock is not held: "
            "the turns let its drift hit both alike",
        ]
    )


def data(proof: Proof) -> dict[str, Any]:
    """Return a proof as `fitdoctor.report/1` has it."""
    return {
        "rules": list(proof.rules),
        "before_ms": _ends(proof.before_ms),
        "after_ms": _ends(proof.after_ms),
        "speedup": _ends(proof.speedup),
        "predicted": _ends(proof.predicted) if proof.predicted is not None else None,
        "equivalence": {"kind": proof.learning, "losses": [[*map(_finite, each)] for each in proof.losses]},
        "verdict": proof.verdict,
    }


def _ends(interval: Interval) -> dict[str, float | None]:
    """Return an interval as JSON can hold it."""
    return {name: _finite(value) for name, value in asdict(interval).items()}


def _finite(value: float) -> float | None:
    """Return a number, or nothing: JSON knows neither infinity nor what is no number."""
    return value if math.isfinite(value) else None


def dumps(proof: Proof) -> str:
    """Return it as JSON, with what the report has no place for."""
    more = {
        "schema": "fitdoctor.proof/1",
        "because": proof.because,
        "schedule": list(proof.schedule),
        "before_s": _ends(proof.before_s),
        "after_s": _ends(proof.after_s),
        "runs_s": dict(zip(("before", "after"), map(list, proof.runs_s), strict=True)),
    }
    return json.dumps({**more, **data(proof)}, indent=2) + "\n"

"""How near the step comes to what this machine can do: arithmetic and memory traffic, against a calibration.

What a step computes is counted from the shapes of the layers: a forward pass, and twice as much for the gradients.
Memory traffic is a floor: activations written, read for the gradients, and the gradients of them; weights read twice,
their gradients, and the update.  What the machine can do is what large products and large copies reached, by the same
framework, in turns with the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Gap, Interval

PRODUCTS, COPIES = "large products", "large copies"
EXPERIMENT = "what this machine can do"
BACKWARD = 3
"""Forward and backward passes, in forward passes."""
_ACTIVATIONS, _WEIGHTS = 3, 5


@dataclass(frozen=True, slots=True)
class Roofline:
    """The step on one batch against the machine."""

    seconds: Interval
    """Of the step on one batch, without callbacks."""
    flops: float
    """Operations of a step, as far as they are known."""
    bytes: float
    """Bytes that a step moves at least."""
    peak_flops: Interval
    peak_bytes: Interval
    """What the machine did per second in the calibration."""
    not_counted: tuple[str, ...]
    """Kinds of layers whose operations are not known."""

    @property
    def flops_per_s(self) -> Interval:
        """Operations per second in the step."""
        return _per(self.flops, self.seconds)

    @property
    def bytes_per_s(self) -> Interval:
        """Bytes per second in the step, at least."""
        return _per(self.bytes, self.seconds)

    @property
    def arithmetic(self) -> Interval:
        """Of the machine's operations per second, the share that the step reaches."""
        return _over(self.flops_per_s, self.peak_flops)

    @property
    def memory(self) -> Interval:
        """Of the machine's bytes per second, the share that the step needs at least."""
        return _over(self.bytes_per_s, self.peak_bytes)

    @property
    def nearest(self) -> str:
        """Which of the two bounds the step is nearer to."""
        return "arithmetic" if self.arithmetic.mid >= self.memory.mid else "memory"


def _per(count: float, seconds: Interval) -> Interval:
    return Interval(*(count / max(each, 1e-12) for each in (seconds.high, seconds.mid, seconds.low)))


def _over(one: Interval, other: Interval) -> Interval:
    return Interval(one.low / other.high, one.mid / other.mid, one.high / other.low)


def establish(trials: Trials) -> Roofline:
    """Read the calibration."""
    found = {name: trials.ratio(name, experiment=EXPERIMENT)[1] for name in (PRODUCTS, COPIES)}
    detail = found[PRODUCTS].detail
    forward = float(detail.get("forward_flops") or 0.0)
    if forward <= 0:
        reason = f"the operations of its layers are not known ({', '.join(detail.get('not_counted') or ())})"
        raise MissingEvidence(Gap("the operations of a step", reason, Gap.DOES_NOT_APPLY))
    moved = _ACTIVATIONS * float(detail.get("activation_bytes") or 0) + _WEIGHTS * float(
        detail.get("weight_bytes") or 0
    )
    steps = [each for trial in found.values() for each in trial.baseline_ns]
    return Roofline(
        seconds=rows.median(steps).scale(1e-9),
        flops=BACKWARD * forward,
        bytes=moved,
        peak_flops=_reached(float(detail["flops"]), found[PRODUCTS].changed_ns),
        peak_bytes=_reached(float(found[COPIES].detail["bytes"]), found[COPIES].changed_ns),
        not_counted=tuple(detail.get("not_counted") or ()),
    )


def _reached(count: float, times_ns: Sequence[float]) -> Interval:
    return _per(count, rows.median(times_ns).scale(1e-9))


def as_data(found: Roofline) -> dict[str, Any]:
    """Return everything for the JSON report."""
    return {
        "step_ms": asdict(found.seconds.scale(1e3)),
        "flops": found.flops,
        "bytes_at_least": found.bytes,
        "flops_per_s": asdict(found.flops_per_s),
        "bytes_per_s_at_least": asdict(found.bytes_per_s),
        "machine_flops_per_s": asdict(found.peak_flops),
        "machine_bytes_per_s": asdict(found.peak_bytes),
        "arithmetic": asdict(found.arithmetic),
        "memory_at_least": asdict(found.memory),
        "nearest": found.nearest,
        "not_counted": list(found.not_counted),
        "how": "operations from the shapes of the layers, three forward passes a step; the machine from products of "
        "1024 by 1024 matrices and copies of 64 MiB by the same framework, in turns with the step",
    }

"""What held the device back: a GPU whose clocks were lowered, a CPU quota that was used up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor.facts import rows
from fitdoctor.facts.device_use import DeviceUse, Look
from fitdoctor.facts.host_use import HostUse, within
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Interval, Steps

HEAT = frozenset({"hardware slowdown", "heat (software)", "heat (hardware)", "power brake"})
"""What lowers clocks though the GPU has work and power left: heat, or the board protecting itself."""
POWER = "power cap"
"""What lowers them at full load on many a healthy GPU."""
FEWEST_LOOKS = 3
"""Of each kind: with fewer, steps are not compared."""


@dataclass(frozen=True, slots=True)
class Slowed:
    """Clocks of a GPU that something held down for a while."""

    share: float
    """Of the looks."""
    reasons: tuple[str, ...]
    """The most frequent first."""
    clock: float | None
    """MHz meanwhile, on average."""
    free_clock: float | None
    """MHz at other times, while it had work."""
    held: Interval | None
    """Seconds per step meanwhile."""
    free: Interval | None
    """Seconds per step at other times."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A CPU quota and how much it held the process back."""

    cores: float
    """What it allows."""
    stopped: float
    """Core-seconds per second for which threads that wanted to run were stopped."""
    used: float
    """Core-seconds per second that they ran."""
    periods: float
    """Share of its periods in which it was used up."""
    machine: float
    """Cores that there are, for a larger one."""

    @property
    def wanted(self) -> float:
        """Cores that the threads would keep busy, as far as there are any."""
        return min(self.stopped + self.used, max(self.machine, self.used))


@dataclass(frozen=True, slots=True)
class Throttling:
    """Both; None where there is no such thing, or nobody looked."""

    slowed: Slowed | None
    quota: Quota | None
    limited: float | None
    """Cores that a quota allows, whether or not it was seen to bind."""


def establish(capture: Capture, training: Training, devices: DeviceUse | None, host: HostUse | None) -> Throttling:
    """Look at the samples within the steady steps."""
    environment: Mapping[str, Any] = capture.meta.get("environment") or {}
    limited = environment.get("cpu_quota")
    return Throttling(
        slowed=_slowed(capture, training, devices.looks) if devices is not None else None,
        quota=_quota(capture, training, host, environment) if limited and host is not None else None,
        limited=float(limited) if limited else None,
    )


def _quota(capture: Capture, training: Training, host: HostUse, environment: Mapping[str, Any]) -> Quota | None:
    if host.throttled is None:
        return None
    cores = float(environment["cpu_quota"])
    samples = within(capture, training)
    first, last = ((each.values.get("throttling") or {}) for each in (samples[0], samples[-1]))
    passed = last.get("periods", 0) - first.get("periods", 0)
    used_up = last.get("throttled_periods", 0) - first.get("throttled_periods", 0)
    machine = float(environment.get("affinity") or environment.get("logical_cores") or cores)
    return Quota(cores, host.throttled, host.cores_busy, used_up / passed if passed > 0 else 0.0, machine)


def _slowed(capture: Capture, training: Training, looks: Sequence[Look]) -> Slowed | None:
    told = [(at, each) for at, each in looks if "throttle" in each]
    held = [(at, each) for at, each in told if _reasons(each)]
    if not told:
        return None
    # An idle GPU lowers its clocks by itself.
    free = [(at, each) for at, each in told if not _reasons(each) and "idle" not in each["throttle"]]
    seconds = _step_seconds(capture, training, [at for at, _ in told])
    reasons = Counter(reason for _, each in held for reason in _reasons(each))
    return Slowed(
        share=len(held) / len(told),
        reasons=tuple(name for name, _ in reasons.most_common()),
        clock=_clock(held),
        free_clock=_clock(free),
        held=_middle([seconds[at] for at, _ in held if at in seconds]),
        free=_middle([seconds[at] for at, _ in free if at in seconds]),
    )


def _reasons(look: Mapping[str, Any]) -> list[str]:
    return [reason for reason in look["throttle"] if reason in HEAT or reason == POWER]


def _clock(looks: Sequence[Look]) -> float | None:
    found = [float(each["sm_mhz"]) for _, each in looks if "sm_mhz" in each]
    return sum(found) / len(found) if found else None


def _middle(seconds: Sequence[float]) -> Interval | None:
    return rows.median(seconds) if len(seconds) >= FEWEST_LOOKS else None


def _step_seconds(capture: Capture, training: Training, times: Sequence[int]) -> dict[int, float]:
    """Return seconds per step in the stretch that ends with each look."""
    every = rows.joined([capture.steps[call.id] for call in training.calls if call.id in capture.steps])
    steady: Steps = rows.choose(every, rows.steady(every))
    found = {}
    for before, at in zip([0, *times], times, strict=False):
        mine = (steady.start_ns > before) & (steady.start_ns <= at)
        count = float(steady.count[mine].sum())
        if count > 0:
            found[at] = float(steady.wall_ns[mine].sum()) / count / 1e9
    return found

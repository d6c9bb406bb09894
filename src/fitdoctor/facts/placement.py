"""What the training computes on, of what the machine has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fitdoctor.facts import machine
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture, Site
from fitdoctor.probes.distributions import DISTRIBUTIONS, PLUGINS


@dataclass(frozen=True, slots=True)
class Placement:
    """GPUs as the driver, the framework and the weights show them."""

    gpus: tuple[Mapping[str, Any], ...]
    """What the driver offers."""
    cards: int
    """NVIDIA cards in the machine, whether or not a driver offers them."""
    seen: int | None
    """How many GPUs the framework that trains may use; None: it was not asked."""
    weights_on: tuple[str, ...] | None
    """Kinds of devices that hold weights; None: they did not tell."""
    by_itself: bool
    """The framework computes on a GPU that it sees unless told otherwise; PyTorch without Keras does not."""
    hidden_by_script: bool
    """The framework was told during the run not to use what it sees."""
    trouble: machine.Line | None
    """Why the framework, or the driver, does not see what is there, with the command that helps."""
    bf16: bool | None
    """Whether the processor has arithmetic for 16 bits."""
    memory_peak: int | None
    """Bytes that the framework's own allocator took of a GPU at most, until the lab began."""
    memory_limit: int | None
    retries: int | None
    """How often its allocator had to give back all it kept to go on."""
    script: Site

    @property
    def on_gpu(self) -> bool | None:
        """Whether the training computes on a GPU; None: not known."""
        if not self.gpus or self.seen == 0:
            return False
        if self.weights_on is not None:
            return "gpu" in self.weights_on
        return True if self.seen and self.by_itself else None

    @property
    def why_not(self) -> str:
        """Why nothing is to be asked about a GPU; an empty string where there is something to ask."""
        if not self.gpus:
            return "no GPU is there, or its driver offers none"
        return "the training does not compute on the GPU: hidden-gpu judges that" if self.on_gpu is False else ""


def establish(capture: Capture, training: Training) -> Placement:
    """Put together what the driver, the framework and the weights say."""
    environment: Mapping[str, Any] = capture.meta.get("environment") or {}
    stack: Mapping[str, Any] = capture.meta.get("stack") or {}
    if stack.get("backend") != training.backend:
        stack = {}
    gpus = tuple(environment.get("gpus") or ())
    memory: Mapping[str, Any] = capture.meta.get("device_memory") or {}
    held = training.info.get("weights_on")
    total = gpus[0].get("memory_total") if gpus else None
    return Placement(
        gpus=gpus,
        cards=max(len(gpus), int(environment.get("nvidia_cards") or 0)),
        seen=stack.get("gpus"),
        weights_on=tuple(held) if held else None,
        by_itself=training.backend != "torch" or training.kind == "fit",
        hidden_by_script=bool(stack.get("hidden_by_script")),
        trouble=_trouble(capture, training, stack, environment),
        bf16=environment.get("bf16"),
        memory_peak=memory.get("peak"),
        memory_limit=memory.get("limit") or total,
        retries=memory.get("retries"),
        script=training.site or Site(str(capture.meta.get("script") or "the script"), 1),
    )


def _trouble(
    capture: Capture, training: Training, stack: Mapping[str, Any], environment: Mapping[str, Any]
) -> machine.Line | None:
    asked = environment.get("gpus") or environment.get("gpus_why")
    line = machine.gpu(environment) if asked else None
    if line is not None and line.state != "pass":
        return line
    if not stack or not environment.get("gpus") or training.backend not in DISTRIBUTIONS:
        return None
    versions: Mapping[str, str] = capture.meta.get("versions") or {}
    names = [name for name in DISTRIBUTIONS[training.backend] if name in versions]
    view = {
        "name": training.backend,
        "distributions": names,
        "version": versions[names[0]] if names else None,
        "plugins": {name: versions[name] for name in PLUGINS if name.startswith(training.backend) and name in versions},
        "seen": stack,
    }
    found = machine.framework(view, environment)
    return found if found.state == "problem" else None

"""What one run of a script says: how fast it was, and what in it could be turned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fitdoctor.facts.epoch_looks import BATCH_HOOKS
from fitdoctor.model import Interval
from fitdoctor.proof.runs import Observed, Run
from fitdoctor.tune import pinned

KEPT = (
    "adapter", "run_eagerly", "jit_compile", "steps_per_execution", "workers", "multiprocessing", "steps_given",
    "schedule", "custom_train_step", "weights_on", "samples", "shuffled",
)  # fmt: skip
"""What `knobs.py` asks about the leading training."""
BATCHES = ("Batch", "ParallelBatch", "PaddedBatch", "MapAndBatch")


@dataclass(frozen=True, slots=True)
class Seen:
    """One run, as plain data."""

    backend: str
    kind: str
    where: str
    """The line that trains."""
    step_s: Interval
    batch: float | None
    """Samples in a step, on average; None where nobody knows."""
    steps: float
    """Steps of the whole training."""
    training_s: float
    """Seconds of the whole training, projected to its end."""
    about: Mapping[str, Any] = field(default_factory=dict)
    learning: tuple[tuple[int, float, float], ...] = ()
    """Epoch, step and loss."""

    @property
    def rate(self) -> Interval:
        """Samples per second in steady steps; steps per second where nobody knows how many samples a step has."""
        each = self.batch or 1.0
        # Steps that scatter so much that they may take no time at all have no highest rate.
        most = each / self.step_s.low if self.step_s.low > 0 else math.inf
        return Interval(each / self.step_s.high, each / self.step_s.mid, most)

    @property
    def work(self) -> float:
        """Samples of the whole training, or its steps."""
        return self.steps * (self.batch or 1.0)

    def training_of(self, own: Seen) -> float:
        """Return the seconds for as many samples as the script's own training has."""
        return self.training_s * own.work / self.work if self.work > 0 else self.training_s

    def run_of(self, own: Seen) -> Run:
        """Return it as a proof takes it: times are for as many samples as the script's own training and step have."""
        step = self.step_s.mid * (own.batch / self.batch if own.batch and self.batch else 1.0)
        learning = {(epoch, at): loss for epoch, at, loss in self.learning}
        return Run(self.training_of(own), step, learning, cut=int(self.about.get("cut") or 0))

    def data(self) -> dict[str, Any]:
        """Return it as JSON can hold it, without losses."""
        return asdict(replace(self, learning=(), about=dict(self.about)))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Seen:
        """Read it back from what `data` gave."""
        return cls(**{**given, "step_s": Interval(**given["step_s"]), "learning": ()})


def look(observed: Observed) -> Seen:
    """Read it from a capture."""
    training, info = observed.training, observed.training.info
    operators = info.get("dataset") or []
    size = _batch_size(info, operators)
    stages = [str(each.get("op")) for each in operators]
    environment = observed.capture.meta.get("environment") or {}
    about = {name: info[name] for name in KEPT if name in info}
    about |= {
        "batch_size": size,
        "precision": info.get("policy"),
        "backend": training.backend,
        "prefetch": bool(stages) and stages[0] == "Prefetch",
        "plain_batch": next((each for each in stages if each != "Prefetch"), None) == "Batch",
        "operators": stages[:2],
        "batch_callbacks": _batch_callbacks(observed),
        "steps_per_epoch": training.steps_per_epoch,
        "cores": environment.get("cores"),
        "cut": observed.cut,
        "files": [each.path for each in observed.capture.sources],
        "pinned": pinned.why({each.path: each.text for each in observed.capture.sources}),
        **(observed.capture.meta.get("turned") or {}),
    }
    return Seen(
        backend=training.backend,
        kind=training.kind,
        where=str(training.site) if training.site is not None else "",
        step_s=observed.model.step,
        batch=_mean_batch(size, info, operators),
        steps=training.planned_steps,
        training_s=observed.training_s,
        about=about,
        learning=tuple((epoch, step, loss) for (epoch, step), loss in observed.learning.items()),
    )


def _batch_callbacks(observed: Observed) -> list[str]:
    """Name the script's own callbacks that are called for every batch."""
    ids = observed.training.call_ids
    return sorted(
        {
            each.name
            for each in observed.capture.callbacks
            if each.call in ids and each.hook in BATCH_HOOKS and (not each.builtin or each.name == "LambdaCallback")
        }
    )


def _batch_size(info: Mapping[str, Any], operators: Sequence[Mapping[str, Any]]) -> int | None:
    if info.get("batch_size"):
        return int(info["batch_size"])
    sizes = [each.get("batch") for each in operators if each.get("op") in BATCHES]
    return int(sizes[0]) if sizes and sizes[0] else None


def _mean_batch(
    size: int | None, info: Mapping[str, Any], operators: Sequence[Mapping[str, Any]]
) -> float | None:  # fmt: skip
    """Return how many samples a step has on average: the last batch of an epoch is often a small one."""
    if size is None:
        return None
    if info.get("adapter") == "arrays" and info.get("samples"):
        samples, batches = int(info["samples"]), -(-int(info["samples"]) // size)
        return samples / batches
    for each in operators:
        if each.get("op") in BATCHES:
            below = operators[each["inputs"][0]] if each.get("inputs") else {}
            given, made = below.get("elements"), each.get("elements")
            if isinstance(given, int) and isinstance(made, int) and made > 0:
                return min(float(size), given / made)
            break
    return float(size)

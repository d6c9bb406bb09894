"""What may be turned on this script, with which values; and what may not, with why."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fitdoctor.model import Safety
from fitdoctor.tune.seen import Seen
from fitdoctor.tune.settings import SAFETY, Settings

Value = int | bool | str

STEPS = (8, 32)
"""Steps per execution that a run can be stopped between (see `capture/cap.py`)."""
WORKERS = (2, 4, 8)
TIMES = (2, 4, 8)
"""How many times as large batches become."""
FEWEST_BATCHES = 8
"""An epoch keeps at least so many."""


@dataclass(frozen=True, slots=True)
class Knob:
    """Something to turn: its own value first, then the others to try."""

    name: str
    values: tuple[Value, ...]
    safety: Safety
    changes: str = "it may change what is learnt"
    """What it does where it is not safe."""

    @property
    def own(self) -> Value:
        """What the script has."""
        return self.values[0]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is not turned on this script."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Space:
    """All that is searched, and what is not."""

    knobs: tuple[Knob, ...]
    left_out: tuple[LeftOut, ...]
    backend: str
    """The script's own."""

    def applies(self, name: str, backend: Value) -> bool:
        """Tell whether a knob can be turned where the script runs on this backend."""
        if name == "jit_compile":
            return backend == self.backend
        return not (name == "steps_per_execution" and backend == "torch")

    @property
    def size(self) -> int:
        """How many combinations there are."""
        backends = next((knob.values for knob in self.knobs if knob.name == "backend"), (self.backend,))
        rest = [knob for knob in self.knobs if knob.name != "backend"]
        return sum(math.prod(len(knob.values) for knob in rest if self.applies(knob.name, each)) for each in backends)

    @property
    def own(self) -> dict[str, Value]:
        """What the script has, knob by knob."""
        return {knob.name: knob.own for knob in self.knobs}

    def settings(self, chosen: Mapping[str, Value]) -> Settings:
        """Return what differs from the script's own."""
        own = self.own
        return Settings.of({name: value for name, value in chosen.items() if value != own[name]})

    def data(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Space:
        """Read it back from what `data` gave."""
        knobs = tuple(Knob(**{**each, "values": tuple(each["values"])}) for each in given["knobs"])
        return cls(knobs, tuple(LeftOut(**each) for each in given["left_out"]), given["backend"])


def space(own: Seen, installed: Sequence[str], *, unsafe: bool = False, only: Collection[str] = ()) -> Space:
    """Return what is searched for a script that ran so by itself."""
    knobs: list[Knob] = []
    left_out: list[LeftOut] = []
    for name, find in _FINDERS.items():
        found = find(own, installed) if not only or name in only else "not asked for: --only"
        if isinstance(found, str):
            left_out.append(LeftOut(name, found))
        elif found.safety != "same" and not unsafe:
            left_out.append(LeftOut(name, f"{found.changes}: --unsafe searches it too"))
        else:
            knobs.append(found)
    return Space(tuple(knobs), tuple(left_out), own.backend)


Finder = Callable[[Seen, Sequence[str]], "Knob | str"]
OWN_LOOP = "the training loop is the script's own: only fit takes it"


def _knob(name: str, own: Value, others: Sequence[Value], changes: str = "") -> Knob:
    values = (own, *(each for each in others if each != own))
    return Knob(name, values, "may change", changes) if changes else Knob(name, values, SAFETY[name])


def _steps_per_execution(seen: Seen, installed: Sequence[str]) -> Knob | str:
    if seen.kind != "fit":
        return OWN_LOOP
    if seen.backend == "torch":
        return "Keras cannot do it on PyTorch"
    if seen.about.get("run_eagerly"):
        return "run_eagerly=True compiles nothing"
    called = seen.about.get("batch_callbacks") or ()
    if called:
        return f"{called[0]} is called for every batch: it would be called less often"
    epoch = seen.about.get("steps_per_epoch") or math.inf
    others = [count for count in STEPS if count <= epoch]
    if not others:
        return f"an epoch has {epoch:.0f} steps"
    return _knob("steps_per_execution", int(seen.about.get("steps_per_execution") or 1), others)


def _jit_compile(seen: Seen, installed: Sequence[str]) -> Knob | str:
    if seen.kind != "fit":
        return OWN_LOOP
    if seen.backend == "torch":
        return "XLA is not there on PyTorch"
    if seen.about.get("run_eagerly"):
        return "run_eagerly=True compiles nothing"
    if seen.about.get("jit_compile") and seen.backend == "jax":
        return "JAX compiles with XLA already"
    own = bool(seen.about.get("jit_compile"))
    return _knob("jit_compile", own, [not own])


def _workers(seen: Seen, installed: Sequence[str]) -> Knob | str:
    adapter = seen.about.get("adapter")
    if adapter not in ("PyDataset", "DataLoader"):
        return f"{_data(seen)} has no workers"
    changes = ""
    if adapter == "DataLoader" or seen.about.get("multiprocessing"):
        changes = "processes draw random numbers of their own"
    elif seen.about.get("shuffled", True):
        changes = "fit shuffles the batches, and with workers draws another order"
    most = max(4, 2 * int(seen.about.get("cores") or 1))
    others = [count for count in WORKERS if count <= most]
    return _knob("workers", int(seen.about.get("workers") or 0), others, changes)


def _prefetch(seen: Seen, installed: Sequence[str]) -> Knob | str:
    if seen.about.get("adapter") != "tf.data":
        return f"{_data(seen)} is no tf.data pipeline"
    if seen.about.get("prefetch"):
        return "the pipeline ends with it already"
    return _knob("prefetch", False, [True])


def _batch_size(seen: Seen, installed: Sequence[str]) -> Knob | str:
    why = _why_no_batches(seen)
    if why:
        return why
    own = int(seen.about["batch_size"])
    epoch = seen.about.get("steps_per_epoch")
    others = [own * times for times in TIMES if epoch is None or epoch / times >= FEWEST_BATCHES]
    if not others:
        return f"an epoch has {epoch:.0f} steps: with larger batches too few would be left"
    return _knob("batch_size", own, others)


def _why_no_batches(seen: Seen) -> str:
    adapter = seen.about.get("adapter")
    if seen.kind != "fit":
        return OWN_LOOP
    if adapter not in ("arrays", "tf.data"):
        return f"{_data(seen)} makes its batches itself"
    if adapter == "tf.data" and not seen.about.get("plain_batch"):
        return f"the pipeline does not end with a plain batch: {' after '.join(seen.about.get('operators') or ['?'])}"
    if not seen.about.get("batch_size"):
        return "nobody knows how large its batches are"
    if seen.about.get("steps_given"):
        return "fit is told steps_per_epoch: an epoch would have other samples"
    if seen.about.get("schedule"):
        return f"its learning rate follows {seen.about['schedule']}, which counts steps"
    if seen.about.get("custom_train_step"):
        return "its train_step is its own: nobody knows what in it goes with the size of a batch"
    return ""


def _precision(seen: Seen, installed: Sequence[str]) -> Knob | str:
    own = seen.about.get("precision")
    if own != "float32":
        return f"the model computes in {own}" if own else "nobody knows what the model computes in"
    others = ["mixed_bfloat16"]
    if "gpu" in (seen.about.get("weights_on") or ()):
        others.append("mixed_float16")
    return _knob("precision", own, others)


def _backend(seen: Seen, installed: Sequence[str]) -> Knob | str:
    if seen.about.get("pinned"):
        return str(seen.about["pinned"])
    if seen.about.get("custom_train_step"):
        return f"its train_step is written for {seen.backend}"
    others = [name for name in installed if name != seen.backend]
    return _knob("backend", seen.backend, others) if others else "no other backend is installed"


def _data(seen: Seen) -> str:
    names = {"arrays": "data in arrays", "tf.data": "a tf.data pipeline", "PyDataset": "a PyDataset"}
    adapter = str(seen.about.get("adapter") or "other data")
    return names.get(adapter, f"data from {adapter}")


_FINDERS: dict[str, Finder] = {
    "steps_per_execution": _steps_per_execution,
    "jit_compile": _jit_compile,
    "workers": _workers,
    "prefetch": _prefetch,
    "batch_size": _batch_size,
    "precision": _precision,
    "backend": _backend,
}
KNOBS = tuple(_FINDERS)

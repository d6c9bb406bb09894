"""LSTM and GRU layers with the settings that the backend's own implementation wants, where they have others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab import twins
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job, Variant
from fitdoctor.probes import recurrent

NAME = "the backend's own recurrent kernel"
VALUES = {**recurrent.ACTIVATIONS, **recurrent.WANTED, "recurrent_dropout": 0.0}
KINDS = ("LSTM", "GRU")


def worth(seen: Seen) -> float:
    """Weigh the step of models with a layer that its settings keep from it."""
    return 2.0 * seen.shares["run"] if any(each["off"] for each in seen.info.get("recurrent") or ()) else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train a twin of the model with these settings on the same batch, in turns with the model as it is."""
    gpu = "gpu" in (seen.info.get("weights_on") or ())
    found = {layer.name: recurrent.in_the_way(layer, gpu) for layer in recurrent.layers(job.model)}
    off = {name: reasons for name, reasons in found.items() if reasons}
    if not off:
        raise CannotRun("no LSTM or GRU layer is kept from it")
    if any(reason.startswith("use_cudnn") for reasons in off.values() for reason in reasons):
        raise CannotRun("use_cudnn=False stands in no description of a model", do="try it in the script without it")
    settings = {reason.partition("=")[0] for reasons in off.values() for reason in reasons}
    told = changed(twins.description(job), {name: VALUES[name] for name in settings})
    twin = twins.made(job, told, job.batch, step_ns=seen.step_ns)
    # cuDNN's operation cannot be compiled by XLA.
    variant = Variant(jit_compile=False, callbacks=()) if job.backend == "tensorflow" else BARE
    yield Comparison("recurrent kernel", lambda: twin.block(variant), lambda: job.block(BARE), {"layers": sorted(off)})


def changed(told: Any, settings: dict[str, Any]) -> Any:
    """Return a description in which every LSTM and GRU has these settings, as far as it has such ones."""
    if isinstance(told, (list, tuple)):
        return type(told)(changed(each, settings) for each in told)
    if not isinstance(told, dict):
        return told
    inside = {name: changed(value, settings) for name, value in told.items()}
    if inside.get("class_name") in KINDS and isinstance(inside.get("config"), dict):
        own = inside["config"]
        inside["config"] = {**own, **{name: value for name, value in settings.items() if name in own}}
    return inside

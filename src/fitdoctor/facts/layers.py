"""What each layer of the model costs in a step, as the lab measured it alone.

A layer alone may take longer than inside the step, where XLA or the processor's caches save work.  So what all layers
take together is compared with the step on one batch: where they take more, each of them counts as much less.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Gap, Interval, Site, Trial

TRIAL = "layers"
EXPERIMENT = "the layers one by one"
SHORT = 2e-3
"""Seconds of a step below which the lab does not time its layers."""
MOSTLY = 0.5
"""Share of a step that must be the model's work for the lab to time its layers."""


@dataclass(frozen=True, slots=True)
class LayerCost:
    """One layer, or several that do the same work on inputs of the same shape."""

    name: str
    kind: str
    count: int
    seconds: Interval | None
    """Per step, forward and backward, all of them together; None: not measured."""
    params: int
    """Weights of one of them."""
    bytes: int
    """What one of them hands on."""
    flops: int | None
    """Operations of a forward pass of one of them; None: not known."""
    names: tuple[str, ...]
    site: Site | None
    """Where its class is defined, if it is the user's own."""
    why: str
    """Why it was not measured."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of the leading training's model, the costliest first."""

    costs: tuple[LayerCost, ...]
    optimizer: Interval
    """Seconds of the update of all weights."""
    step: Interval
    """Seconds of a step on one batch, without callbacks."""
    accounted: Interval
    """What layers and optimizer take together, over the step: the rest is loss, metrics and what belongs to no layer;
    above one where layers alone take longer than inside the step."""

    def named(self, name: str) -> LayerCost | None:
        """Return the cost that holds a layer."""
        return next((each for each in self.costs if name in each.names), None)

    def share(self, seconds: Interval) -> Interval:
        """Return seconds of a layer alone as a share of the step."""
        if self.step.mid <= 0:
            return Interval.exact(0.0)
        low, mid = max(1.0, self.accounted.high), max(1.0, self.accounted.mid)
        shares = (seconds.low / self.step.high / low, seconds.mid / self.step.mid / mid, seconds.high / self.step.low)
        return Interval.around(shares).clip(0.0, 1.0)

    def stays(self, seconds: Interval) -> Interval:
        """Return the share of the step that stays without these seconds of layers alone."""
        gone = self.share(seconds)
        return Interval(1 - gone.high, 1 - gone.mid, 1 - gone.low)


def establish(training: Training, trials: Trials) -> Layers:
    """Read the lab's trial."""
    del training
    accounted, trial = trials.ratio(TRIAL, experiment=EXPERIMENT)
    costs = [_cost(each) for each in trial.detail.get("layers") or ()]
    return Layers(
        costs=tuple(sorted(costs, key=lambda each: -(each.seconds.mid if each.seconds else 0.0))),
        optimizer=rows.median(trial.detail.get("optimizer_ns") or [0.0]).scale(1e-9),
        step=rows.median(trial.baseline_ns).scale(1e-9),
        accounted=accounted,
    )


def _cost(found: Mapping[str, Any]) -> LayerCost:
    took, count, site = found.get("ns") or (), int(found.get("count", 1)), found.get("site")
    return LayerCost(
        name=str(found["name"]),
        kind=str(found["kind"]),
        count=count,
        seconds=rows.median(took).scale(count / 1e9) if took else None,
        params=int(found.get("params") or 0),
        bytes=int(found.get("bytes") or 0),
        flops=found.get("flops"),
        names=tuple(found.get("names") or (found["name"],)),
        site=Site(str(site[0]), int(site[1])) if site else None,
        why=str(found.get("why") or ""),
    )


def as_data(layers: Layers) -> dict[str, Any]:
    """Return everything for the JSON report; times in ms per step."""
    return {
        "layers": [
            {
                "name": each.name,
                "kind": each.kind,
                "count": each.count,
                "ms": _ms(each.seconds),
                "share": _plain(layers.share(each.seconds)) if each.seconds is not None else None,
                "params": each.params,
                "activation_bytes": each.bytes,
                "forward_flops": each.flops,
                "names": list(each.names),
                "not_measured": each.why or None,
            }
            for each in layers.costs
        ],
        "optimizer_ms": _ms(layers.optimizer),
        "step_ms": _ms(layers.step),
        "accounted": _plain(layers.accounted),
        "how": "each layer compiled and timed alone on the inputs it gets, forward and backward",
    }


def _ms(seconds: Interval | None) -> dict[str, float] | None:
    return None if seconds is None else _plain(seconds.scale(1e3))


def _plain(interval: Interval) -> dict[str, float]:
    return {"low": interval.low, "mid": interval.mid, "high": interval.high}


# --- what rules ask -----------------------------------------------------------------------------------


def outline(training: Training) -> Mapping[str, Any]:
    """Return which layers of the model stand out, as read when the training began; raises where nothing was."""
    found: Mapping[str, Any] | None = training.info.get("layers")
    if training.kind != "fit":
        reason = f"the model of a {training.kind} is not looked at"
        raise MissingEvidence(Gap("the layers of the model", reason, Gap.DOES_NOT_APPLY))
    if found is None:
        reason = "the model was not built yet when the training began"
        raise MissingEvidence(Gap("the layers of the model", reason, "build it before: model(x[:1])"))
    return found


def measured(layers: Layers | None, trials: Trials, model: StepModel) -> Layers:
    """Return the costs of the layers; raises with the reason where the lab did not measure them."""
    if layers is not None:
        return layers
    refused(trials, TRIAL)
    work = 1 - model.share("input").mid - model.share("callbacks").mid
    reason = ""
    if model.step.mid < SHORT:
        reason = f"a step of {units.duration(model.step.mid)} is launching more than layers"
    elif work < MOSTLY:
        reason = f"all but {units.percent(work)} of a step is input and callbacks"
    if reason and trials.mode == "capped":
        raise MissingEvidence(Gap("the time of each layer", reason, Gap.DOES_NOT_APPLY))
    raise MissingEvidence(trials.untried("the time of each layer"))


def tried(trials: Trials, kind: str) -> list[tuple[str, Interval, Trial]]:
    """Return what the lab put in the place of layers: the layer, and the seconds of a call it saved each time."""
    return [
        (str(trial.detail.get("layer")), saved(trial), trial)
        for trial in trials.trials
        if trial.name.startswith(f"{kind}: ") and trial.baseline_ns and trial.changed_ns
    ]


def instead(trials: Trials, kind: str, name: str) -> Trial:
    """Return what the lab put in the place of one layer; raises with the reason where it did not."""
    found = [trial for each, _, trial in tried(trials, kind) if each == name]
    if not found:
        refused(trials, kind)
        trials.ratio(f"{kind}: {name}")
    return found[0]


def refused(trials: Trials, kind: str) -> None:
    """Raise the reason why something was not put in the place of layers, if there is one."""
    for gap in trials.gaps:
        if gap.what == f"experiment: {EXPERIMENT}" or gap.what.startswith(f"experiment: {kind}: "):
            raise MissingEvidence(gap)


def saved(trial: Trial) -> Interval:
    """Return by how many seconds what was tried is faster, each time compared with its neighbour."""
    pairs = zip(trial.baseline_ns, trial.changed_ns, strict=False)
    return rows.median([before - after for before, after in pairs]).scale(1e-9)


def as_in_the_step(seconds: Interval, here: LayerCost, trial: Trial) -> Interval:
    """Return seconds of a layer's own trial as they were when the layer took turns with the step."""
    return scaled_as(seconds, here.seconds, trial, here.count)


def update_in_the_step(seconds: Interval, layers: Layers, trial: Trial) -> Interval:
    """Return seconds of a trial with the optimizer's update as they were when the update took turns with the step."""
    return scaled_as(seconds, layers.optimizer, trial)


def scaled_as(seconds: Interval, took: Interval | None, trial: Trial, count: int = 1) -> Interval:
    """Scale the seconds of a trial as what it compares `took` in turns with the step.

    The machine may have been faster or slower then.
    """
    alone = statistics.median(trial.baseline_ns) / 1e9 * count
    return seconds if took is None or took.mid <= 0 or alone <= 0 else seconds.scale(took.mid / alone)


def added(intervals: Sequence[Interval]) -> Interval:
    """Add up intervals, end by end."""
    return Interval(*(sum(getattr(each, end) for each in intervals) for end in ("low", "mid", "high")))


def line_of(source: SourceTree | None, kind: str, name: str, width: int | None = None) -> Site | None:
    """Return where a layer is made: the call with its name, else with its width, else the only one of its kind."""
    calls = [call for call in source.calls() if call.name.split(".")[-1] == kind] if source is not None else []
    named = [call for call in calls if _constant(call.keyword("name")) == name]
    wide = [call for call in calls if width is not None and width in _widths(call)]
    found = named or wide or (calls if len(calls) == 1 else [])
    return found[0].site if found else None


def _widths(call: FoundCall) -> list[Any]:
    return [_constant(each) for each in (call.argument(0, "units"), call.keyword("filters"))]


def _constant(node: ast.expr | None) -> Any:
    return node.value if isinstance(node, ast.Constant) else None

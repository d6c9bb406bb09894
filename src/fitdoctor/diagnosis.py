"""From a capture to the answer: every rule judges, findings are ranked, together they set the ceiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from fitdoctor import headline, units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import Resolver, resolve
from fitdoctor.facts.host_use import HostUse
from fitdoctor.facts.input_data import as_data
from fitdoctor.facts.input_view import InputView
from fitdoctor.facts.layers import Layers
from fitdoctor.facts.layers import as_data as layers_as_data
from fitdoctor.facts.loader import HotLine, HotLoop, Loader
from fitdoctor.facts.roofline import Roofline
from fitdoctor.facts.roofline import as_data as roofline_as_data
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import BETWEEN_RUNS
from fitdoctor.facts.whole_run import WholeRun
from fitdoctor.model import (
    PARTS,
    Capture,
    Ceiling,
    Cost,
    Finding,
    Gap,
    Interval,
    NotApplicable,
    Outcome,
    Passed,
    Report,
    Site,
    Suspicion,
    Unknown,
    ranked,
)
from fitdoctor.rules import Absent, Clear, Rule, Suspect, all_rules

_BUG = "please report it, with the capture if you can"
HOT = 0.5
"""A line that takes less of making a batch than this is not worth naming by itself."""
LARGE = 0.15
"""However much the steps of a run vary, a saving that is surely larger than this is something: what they vary by is in
its interval already, and small savings alone could be nothing but noise."""


def diagnose(capture: Capture) -> Report:
    """Judge a capture; never raises for what the capture holds or lacks."""
    facts = resolve(capture)
    outcomes = [outcome for rule in all_rules() for outcome in judge(rule, facts)]
    findings = ranked([each for each in outcomes if isinstance(each, Finding)])
    unknown = tuple(each for each in outcomes if isinstance(each, Unknown))
    training, model, gap = _basis(facts)
    suspicions = tuple(each for each in outcomes if isinstance(each, Suspicion))
    host = _host_use(facts)
    stolen = host.stolen if host else None
    seen = headline.Seen(capture, training, model, gap, findings, unknown, suspicions, stolen, _hot(facts))
    return Report(
        headline=headline.sentence(seen),
        run={
            **_run(capture, training, model),
            **_whole(facts),
            **_layers(facts),
            **_roofline(facts),
            **_waterfall(model, findings),
            **_host(host),
        },
        breakdown=_breakdown(model),
        phases=dict(capture.account),
        ceiling=_ceiling(model, findings),
        findings=findings,
        suspicions=suspicions,
        passed=tuple(each for each in outcomes if isinstance(each, Passed)),
        unknown=unknown,
        not_applicable=tuple(each for each in outcomes if isinstance(each, NotApplicable)),
        notes=headline.notes(seen),
        next_command=headline.next_command(seen),
        input=_input(facts),
    )


def _hot(facts: Resolver) -> HotLine | HotLoop | None:
    """Return where most of making a batch is spent: a line, or a loop with all that it calls."""
    try:
        loader = facts.get(Loader)
    except MissingEvidence:
        return None
    line = max(loader.lines, key=lambda each: each.share, default=None)
    loop = max(loader.loops or (), key=lambda each: each.share, default=None)
    found = line if line is not None and line.share >= HOT else loop
    return found if found is not None and found.share >= HOT else None


def judge(rule: Rule, facts: Resolver) -> list[Outcome]:
    """Return what one rule says of a run: one outcome, and suspicions beside an `Unknown`."""
    source = _source(facts)
    sites: list[Site] = []
    try:
        sites = list(dict.fromkeys(rule.locate(source))) if source is not None else []
        return _measured(rule, facts, sites, source)
    except MissingEvidence as error:
        if error.gap.remedy == Gap.DOES_NOT_APPLY:
            return [NotApplicable(rule.name, error.gap.reason)]
        return [Unknown(rule.name, error.gap), *_suspicions(rule, sites, error.gap)]
    except Exception as error:  # a rule must not take the other answers down with it
        reason = f"the rule failed: {type(error).__name__}: {error}"
        return [Unknown(rule.name, Gap(f"rule {rule.name}", reason, _BUG))]


def _source(facts: Resolver) -> SourceTree | None:
    try:
        return facts.get(SourceTree)
    except MissingEvidence:
        return None


def _suspicions(rule: Rule, sites: Sequence[Site], gap: Gap) -> list[Suspicion]:
    why = f"{rule.title[:1].lower()}{rule.title[1:]}, says the source; not measured: {gap.reason}"
    return [Suspicion(rule.name, rule.family, site, why) for site in sites]


def _measured(rule: Rule, facts: Resolver, sites: Sequence[Site], source: SourceTree | None) -> list[Outcome]:
    verdict = facts.call(rule.measure)
    if isinstance(verdict, Absent):
        return [NotApplicable(rule.name, verdict.because)]
    if isinstance(verdict, Clear):
        return [Passed(rule.name, verdict.because + _although(sites))]
    if isinstance(verdict, Suspect):
        return [Suspicion(rule.name, rule.family, verdict.site, verdict.why)]
    model = facts.get(StepModel)
    costly = [cost for cost in verdict if cost.saving.low > _noise(cost, model)]
    if not costly:
        return [Passed(rule.name, _too_little(verdict, model) + _although(sites))]
    # Whether there is something to save is known from what was measured in turns; how much it will be is not.
    promised = [replace(cost, saving=model.in_another_run(cost.saving)) for cost in costly]
    return [_finding(rule, cost, sites, source) for cost in promised]


def _noise(cost: Cost, model: StepModel) -> float:
    """Return what a saving must exceed to be told from nothing."""
    if cost.noise is not None:
        return cost.noise
    if cost.change is not None and cost.change.rehearsed and cost.saving.mid > LARGE:
        # The training itself was run both ways, in turns: that its steps vary matters to neither.
        return min(model.noise, BETWEEN_RUNS)
    return min(model.noise, LARGE)


def _although(sites: Sequence[Site]) -> str:
    return f" (the pattern is in the source at {', '.join(map(str, sites))})" if sites else ""


def _too_little(costs: Sequence[Cost], model: StepModel) -> str:
    if not costs:
        return "nothing of the kind was seen"
    most = max(costs, key=lambda cost: cost.saving.mid)
    return (
        f"{most.because}: removing it would save {units.percent_range(most.saving)} of the training, "
        f"and this run cannot tell less than {units.percent(_noise(most, model))} from nothing"
    )


def _finding(rule: Rule, cost: Cost, sites: Sequence[Site], source: SourceTree | None) -> Finding:
    places = rule.place(source) if rule.place is not None and source is not None else iter(())
    site = cost.site or (sites[0] if sites else next(places, None))
    return Finding(rule.name, rule.family, site, cost, rule.fix(cost, source))


def _basis(facts: Resolver) -> tuple[Training | None, StepModel | None, Gap | None]:
    try:
        return facts.get(Training), facts.get(StepModel), None
    except MissingEvidence as error:
        return None, None, error.gap


def _input(facts: Resolver) -> dict[str, Any] | None:
    try:
        return as_data(facts.get(InputView))
    except MissingEvidence:
        return None


def _layers(facts: Resolver) -> dict[str, Any]:
    try:
        return {"model": layers_as_data(facts.get(Layers))}
    except MissingEvidence:
        return {}


def _roofline(facts: Resolver) -> dict[str, Any]:
    try:
        return {"roofline": roofline_as_data(facts.get(Roofline))}
    except MissingEvidence:
        return {}


def _host_use(facts: Resolver) -> HostUse | None:
    try:
        return facts.get(HostUse)
    except MissingEvidence:
        return None


def _host(host: HostUse | None) -> dict[str, Any]:
    """Say how much of the machine the training had while its steps were steady."""
    if host is None:
        return {}
    names = ("cores_busy", "crowding", "throttled", "stolen")
    return {"host": {name: getattr(host, name) for name in names}}


def _ceiling(model: StepModel | None, findings: Sequence[Finding]) -> Ceiling | None:
    """Apply every change to the step model, and leave out the steps that would be left out."""
    if model is None:
        return None
    return Ceiling(_faster(model, findings), headline.bound(headline.together(model, findings)))


def _faster(model: StepModel, findings: Sequence[Finding]) -> Interval:
    """Return how many times as fast the training would be with all these fixed."""
    faster, stays = headline.together(model, findings).speedup(), headline.fewer_steps(findings)
    return Interval(faster.low / stays.high, faster.mid / stays.mid, faster.high / stays.low)


def _waterfall(model: StepModel | None, findings: Sequence[Finding]) -> dict[str, Any]:
    """Say how long the whole training would take as one finding after the other is fixed: savings overlap."""
    if model is None or model.whole_s <= 0 or not findings:
        return {}
    steps = []
    for count in range(1, len(findings) + 1):
        faster = _faster(model, findings[:count])
        left = Interval(*(model.whole_s / each for each in (faster.high, faster.mid, faster.low)))
        steps.append({"rule": findings[count - 1].rule, "speedup": asdict(faster), "seconds": asdict(left)})
    return {"waterfall": steps}


def _breakdown(model: StepModel | None) -> dict[str, float]:
    if model is None:
        return {}
    breakdown = {part: model.parts[part].mid * 1e3 for part in PARTS if part != "other"}
    # Validation runs between the steps, never inside one; its seconds stand under the phases.
    return {**breakdown, "validation": 0.0, "other": model.parts["other"].mid * 1e3}


def _run(capture: Capture, training: Training | None, model: StepModel | None) -> dict[str, Any]:
    meta = capture.meta
    overhead = meta.get("overhead") or {}
    run: dict[str, Any] = {
        "command": list(meta.get("command") or ()),
        "script": meta.get("script"),
        "mode": meta.get("mode"),
        "backend": training.backend if training else meta.get("backend"),
        "versions": dict(meta.get("versions") or {}),
        "steps": training.steps if training else 0,
        "step_ms": _ms(model.step) if model else None,
        "overhead": {"us_per_step": None, "fraction": None, **overhead},
        "ranks": int(meta.get("ranks") or 1),
        "exit": meta.get("exit"),
        "capture": capture.path,
        "wall_s": meta.get("wall_s"),
        "started": meta.get("started"),
        "machine": _machine(meta.get("environment") or {}),
        "memory": _memory(capture),
    }
    if training is None or model is None:
        return run
    return {
        **run,
        "kind": training.kind,
        "site": str(training.site) if training.site else None,
        "adapter": training.info.get("adapter"),
        "batch_size": training.info.get("batch_size"),
        "warmup_steps": training.warmup_steps,
        "epochs": training.epochs,
        "steps_per_epoch": training.steps_per_epoch,
        "planned_steps": training.planned_steps,
        "projected_s": model.whole_s,
        "projected": {"steps": model.planned_steps * model.step.mid, **training.elsewhere},
        "calls": {
            "count": training.call_count,
            "fixed_ms": _ms(training.fixed_per_call) if training.fixed_per_call else None,
        },
        "how": dict(model.how),
        "parameters": training.info.get("parameters"),
        "layers": (training.info.get("layers") or {}).get("kinds"),
        "drift": model.drift,
    }


def _machine(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Name what the run computed on."""
    gpus = [str(each.get("name") or f"GPU {each.get('index', 0)}") for each in environment.get("gpus") or ()]
    return {"cpu": environment.get("cpu"), "cores": environment.get("cores"), "gpus": gpus}


def _memory(capture: Capture) -> dict[str, Any]:
    """Return the most memory that was seen in use: resident of the process, and of the busiest GPU; None: not seen."""
    start, wall = capture.meta.get("start_ns"), capture.meta.get("wall_s")
    # The lab comes afterwards, and needs more.
    end = start + int(wall * 1e9) if start is not None and wall is not None else None
    samples = [sample for sample in capture.host if end is None or sample.t_ns <= end]
    resident = [int(sample.values["rss"]) for sample in samples if "rss" in sample.values]
    gpus = [
        int(gpu["memory_used"]) for sample in samples for gpu in sample.values.get("gpus") or () if "memory_used" in gpu
    ]
    return {"resident_bytes": max(resident, default=None), "gpu_bytes": max(gpus, default=None)}


def _whole(facts: Resolver) -> dict[str, Any]:
    """Say where the time of the whole training goes, as the user would run it."""
    try:
        found = facts.get(WholeRun)
    except MissingEvidence:
        return {}
    return {
        "whole_s": asdict(found.seconds),
        "whole": [
            {
                "name": each.name,
                "seconds": asdict(each.seconds),
                "share": asdict(found.share(each)),
                "how": each.how,
            }
            for each in found.stretches
        ],
    }


def _ms(interval: Interval) -> dict[str, float]:
    return {"low": interval.low * 1e3, "mid": interval.mid * 1e3, "high": interval.high * 1e3}

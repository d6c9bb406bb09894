"""Every core is busy with input and the step still waits.

## What is wrong

Decoding, augmenting or tokenising takes more CPU time per step than the cores of this machine have.  All of them are
busy, so more parallel calls, more workers and more prefetching change nothing: the work itself has to become less, or
be done elsewhere or at another time.

## How it is established

The step was measured to wait for input.  The lab pulled batches without the training and trained on one batch without
the input, and counted the cores each kept busy: wall time by busy cores is CPU time.  All must hold:

- all cores together, doing nothing else, would make a batch more slowly than the step alone takes one;
- the CPU time of both sides over the cores is nine tenths or more of what the slower side takes as it is (or both
  together, if they take turns): nothing is left for parallelism;
- no rewrite that the lab tried on this machine (a cache, more workers, parallel calls, pictures decoded smaller or
  shrunk first) reaches half of the saving.

The saving is what the lab saw when it wrote batches into one file and let the training read those, in turns with the
pipeline as it is.  Where it could not, it is what the step model says of an input that no longer needs these cores; at
its low end what is done without any function of yours (reading, shuffling, putting batches together) stays here.  What
the work costs where it is done instead is not counted.

On a machine that others use at the same time (more threads want to run than there are cores, and this training does not
get them) it is not known whether cores would be idle.  Worker processes are not seen by the lab: there the CPU time of
the whole run is taken, less that of the step.

## What to do

In this order: do it once, offline (write out several augmented variants if the work is random); let the accelerator
do it (Keras preprocessing layers inside the model), if there is one; give it to other machines (`tf.data` service);
rent a machine with more cores per accelerator.

## When it is not worth it

When the step does not wait; when cores are idle (serial-map, idle-workers, python-map); when the same result is
computed again in every epoch and fits into a cache (repeated-preprocessing).

Moving augmentation into the model does not help on a machine without an accelerator.  Measured on two cores: see the
corpus pair of this name, whose fast version writes the augmented pictures out beforehand.

## Example

    data.map(rotate_blur_and_jitter, num_parallel_calls=tf.data.AUTOTUNE)    # slow: all cores, every epoch
    data = tf.data.Dataset.load("augmented")                                 # fast: written once, before training
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.elements import share_of_loader, shorter_input
from fitdoctor.facts.host_use import HostUse
from fitdoctor.facts.input_pipeline import InputPipeline, Operator
from fitdoctor.facts.rewrites import believed
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Alone, Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site, Trial
from fitdoctor.rules import Absent, Clear, Verdict

BUSY = 0.9
"""Cores that are busy for this share of the time are busy: the rest goes to handing work on, and to other programs."""
WRITTEN = "written beforehand"
"""The trial with batches that lie in a file."""
MOST_OF_IT = 0.5
"""A rewrite on this machine that reaches this share of the saving is the better answer."""


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: how much work is too much for the machine, no source tells."""
    del source
    return iter(())


def place(source: SourceTree) -> Iterator[Site]:
    """Find the maps of pipelines, and where datasets make their items."""
    for file in source.files:
        for call in file.calls():
            if isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "map":
                yield call.site
        for node in ast.walk(file.tree):
            if isinstance(node, ast.FunctionDef) and node.name == "__getitem__":
                yield file.site(node, node.name)


def measure(
    training: Training, pipeline: InputPipeline, trials: Trials, model: StepModel, host: HostUse | None
) -> Verdict:
    """Compare the CPU time of input and step with the cores, and rewrites on this machine with what would be saved."""
    if pipeline.adapter == "arrays":
        return Absent("the input is arrays, which are there: large-array-copy judges how they are copied")
    model.need("input")
    if model.share("input").high <= model.noise:
        return Clear("the step does not wait for input")
    input_, work, cores = _sides(trials, model)
    seconds = _cpu_of_input(training, model, input_, work, cores)
    alone, step = input_.seconds, work.seconds
    if sum(each.cpu_step for each in pipeline.functions) >= MOST_OF_IT * seconds:
        return Clear("most of what the input computes is Python that holds the GIL: python-map judges that")
    if seconds / cores <= step.high:
        took = units.duration(seconds / cores)
        return Clear(f"the cores could make a batch in {took}, and the step alone takes {units.duration(step.mid)}")
    change = _change(trials, pipeline, model)
    saving = model.with_change(change).saving()
    better = _rewrite(trials, model, saving)
    if better is not None:
        return Clear(f"a rewrite on this machine does most of it: with {better} the lab got batches that much faster")
    both = (seconds + step.mid * min(work.cores, cores)) / cores
    if both < BUSY * (max(alone.mid, step.mid) if model.works_ahead else alone.mid + step.mid):
        busy = min(cores, seconds / alone.mid) if alone.mid > 0 else 0.0
        if host is not None and host.crowding > 1 and host.cores_busy < BUSY * cores:
            raise MissingEvidence(_crowded(busy, cores))
        return Clear(f"making batches keeps {busy:.1f} of {cores:g} cores busy: the others could help")
    step_cpu = step.mid * work.cores
    return [
        Cost(
            saving=saving,
            because=(
                f"a batch takes {units.duration(seconds)} of CPU time and the step {units.duration(step_cpu)}: "
                f"{cores:g} cores need {units.duration(both)} for that, "
                f"however much runs in parallel; a step takes {units.duration(model.step.mid)}"
            ),
            site=_costliest(pipeline),
            change=change,
            evidence={
                "input_cpu_ms": seconds * 1e3,
                "work_cpu_ms": step_cpu * 1e3,
                "cores": cores,
                "cores_needed_ms": both * 1e3,
                "input_alone_ms": alone.mid * 1e3,
                "step_alone_ms": step.mid * 1e3,
            },
        )
    ]


def _crowded(busy: float, cores: float) -> Gap:
    """More threads wanted to run than there are cores, and this training did not get them."""
    return Gap(
        "idle cores",
        f"making batches got {busy:.1f} of {cores:g} cores, and other programs used the rest",
        "run it while nothing else runs on the machine",
    )


def _sides(trials: Trials, model: StepModel) -> tuple[Alone, Alone, float]:
    """Return what the input and the step take alone, and the cores there are."""
    if model.input_alone is None:
        trials.ratio("loader alone", experiment="the loader alone")
    if model.work_alone is None:
        trials.ratio("cached batch", experiment="one cached batch")
    if model.input_alone is None or model.work_alone is None or model.cores is None:
        raise MissingEvidence(
            Gap(
                "cores that were busy",
                "the capture does not say how many cores the run may use and used",
                "run again with this fitdoctor",
            )
        )
    return model.input_alone, model.work_alone, model.cores


def _cpu_of_input(training: Training, model: StepModel, input_: Alone, work: Alone, cores: float) -> float:
    """Return the CPU seconds that the input of a step takes."""
    if not (training.info.get("multiprocessing") and training.info.get("workers")):
        return input_.seconds.mid * min(input_.cores, cores)
    if model.cpu_s is None:
        raise MissingEvidence(
            Gap(
                "CPU time of the worker processes",
                "no two looks at the host fell within the steady steps",
                Gap.LONGER,
            )
        )
    return max(0.0, model.cpu_s - work.seconds.mid * work.cores)


def _change(trials: Trials, pipeline: InputPipeline, model: StepModel) -> Change:
    """Return what becomes of the training once its batches are made elsewhere, as it was tried or by what they take."""
    try:
        ratio, _ = trials.ratio(WRITTEN)
    except MissingEvidence:
        return Change("input", _stays(pipeline))
    return believed(trials, WRITTEN, Change("input", ratio.clip(0.0, 1.0)), model)


def _stays(pipeline: InputPipeline) -> Interval:
    """Return the share of the input that stays on this machine: nothing, or what is done without a function."""
    costs = [(each, each.cost.cpu.mid) for each in pipeline.operators or () if each.cost and each.cost.cpu]
    total = sum(seconds for _, seconds in costs)
    if total <= 0:
        return Interval.exact(0.0)
    plain = sum(seconds for each, seconds in costs if each.function is None) / total
    return Interval(0.0, plain / 2, plain)


def _rewrite(trials: Trials, model: StepModel, saving: Interval) -> str | None:
    """Name what the lab tried on this machine and what does most of it, if something does."""
    for trial in trials.trials:
        local = trial.detail.get("unit") == "ns per batch" or "decoded_pixels" in trial.detail
        if local and trial.name != WRITTEN and trial.baseline_ns and trial.changed_ns:
            ratio, _ = trials.ratio(trial.name)
            change = believed(trials, trial.name, replace(_local(ratio, trial, model), overlap=True), model)
            if ratio.high < 1 and model.with_change(change).saving().mid >= MOST_OF_IT * saving.mid:
                return trial.name
    return None


def _local(ratio: Interval, trial: Trial, model: StepModel) -> Change:
    """Return what a trial would make of the input: of all of it, or of what is done to single pictures."""
    if "decoded_pixels" in trial.detail:
        return shorter_input(ratio, share_of_loader(trial, model))
    return Change("input", ratio.clip(0.0, 1.0))


def _costliest(pipeline: InputPipeline) -> Site | None:
    def seconds(operator: Operator) -> float:
        return operator.cost.cpu.mid if operator.cost is not None and operator.cost.cpu is not None else 0.0

    found = max(pipeline.operators or (), key=seconds, default=None)
    return found.site if found is not None and seconds(found) > 0 else None


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost, source
    return Fix(
        "prepare it once, offline; or let the accelerator or other machines (tf.data service) do it", "may change"
    )

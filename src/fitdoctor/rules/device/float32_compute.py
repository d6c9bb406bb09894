"""16-bit arithmetic would make this very model faster.

## What is wrong

GPUs since Volta, TPUs and some newer processors have units that multiply matrices of 16-bit numbers several times as
fast as of 32-bit ones, and every activation takes half of the memory traffic.  Keras computes in 32 bits unless told
otherwise.

## How it is established

The lab let every layer of the very model compute in 16 bits, its weights in 32 as before, and trained on one batch both
ways, in turns: `mixed_bfloat16` where the hardware has it, else `mixed_float16`.  No experiment, no finding.  Hardware
without such units is told apart beforehand (the GPU's compute capability, the processor's flags): there 16 bits are
emulated and slower, and the question does not arise.

## What to do

Set the policy before the model is built.  With `mixed_float16` Keras scales the loss by itself.  Let the last layer
compute in 32 bits (`dtype="float32"`).  The numbers differ, so training takes another path: compare the curves.

## When it is not worth it

When the step waits for input; on small models, whose casts cost more than their products; when the experiment shows no
gain.

## Example

    model = build()                                        # slow, on hardware for 16 bits
    keras.config.set_dtype_policy("mixed_bfloat16")        # fast
    model = build()
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Insert
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.placement import Placement
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Interval, Site, Trial
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "16-bit compute"
POLICIES = ("mixed_bfloat16", "mixed_float16")


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: leaving the precision to Keras is no suspicion."""
    del source
    return iter(())


def place(source: SourceTree) -> Iterator[Site]:
    """Find the calls of `compile`: the policy goes before what is built above them."""
    return (call.site for call in source.compile_calls())


def measure(training: Training, placement: Placement, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment."""
    if training.kind != "fit":
        return Absent(f"the precision of a {training.kind} is not seen")
    if placement.on_gpu is False and placement.bf16 is False:
        return Absent("neither a GPU nor this processor computes faster in 16 bits")
    if training.info.get("dtype") not in (None, "float32"):
        return Absent(f"the model does not compute in single precision but in {training.info['dtype']}")
    if model.input_bound:
        return INPUT_BOUND
    ratio, trial = _tried(trials)
    if ratio.mid >= 1:
        return Clear(f"in {trial.name} a step was measured to take {units.percent(ratio.mid)} of its time: no gain")
    change = Change("work", ratio.clip(0.0, 1.0))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=f"in {trial.name} a step took {units.percent_range(ratio)} of its time",
            change=change,
            evidence={"policy": trial.name, "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high}},
        )
    ]


def _tried(trials: Trials) -> tuple[Interval, Trial]:
    """Return what was tried; the reason why nothing was, where nothing was."""
    for policy in POLICIES[:-1]:
        try:
            return trials.ratio(policy, experiment=EXPERIMENT)
        except MissingEvidence:
            continue
    return trials.ratio(POLICIES[-1], experiment=EXPERIMENT)


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    code = f'keras.config.set_dtype_policy("{cost.evidence.get("policy", POLICIES[0])}")'
    call = spots.the_only(source.compile_calls()) if source is not None else None
    edits = (Insert(call.file.path, code),) if call is not None else ()
    return Fix(f"{code} before the model is built", "may change", edits=edits)

"""Copying batches to the device takes a visible share of the step.

## What is wrong

Pictures are made float32 on the host, then copied: four bytes a number through a bus that is far slower than the
device's own memory.  The pixels of a file are one byte each; scaled to floats on the device they would need a quarter
of the copy.

## How it is established

The lab trained the very model on one batch, in turns with the same batch in one byte a number (other values, the same
work).  What the step takes less is what three quarters of the copy cost beside the computing: a copy that passes while
the device computes costs nothing and is not accused.  Only where the training computes on a GPU; a CPU has no memory
apart.

## What to do

Hand over what the files hold (`uint8` pictures) and cast and scale in the model: `keras.layers.Rescaling(1 / 255)`
first.  The same numbers come out, within rounding.  With tf.data, `prefetch` to the device hides the rest.

## When it is not worth it

When the copy passes unseen beside the computing; when inputs are true floating-point numbers (spectra, measurements):
then float16 halves the copy, and rounds.

## Example

    data.map(lambda x, y: (tf.cast(x, tf.float32) / 255.0, y))          # slow: floats are copied
    keras.Sequential([keras.layers.Rescaling(1 / 255), *layers])        # fast: bytes are copied
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.facts.placement import Placement
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Site
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "batches in a quarter of their bytes"
TRIAL = "inputs in one byte"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: whether a copy is felt no source tells."""
    del source
    return iter(())


def measure(training: Training, placement: Placement, trials: Trials, model: StepModel) -> Verdict:
    """Take the gain from the experiment."""
    if training.kind != "fit":
        return Absent(f"the batches of a {training.kind} are not the lab's to change")
    if placement.why_not:
        return Absent(placement.why_not)
    if model.input_bound:
        return INPUT_BOUND
    ratio, trial = trials.ratio(TRIAL, experiment=EXPERIMENT)
    size = units.size(float(trial.detail.get("bytes") or 0))
    if ratio.mid >= 1:
        return Clear(f"the copy of {size} passes while the device computes: with a quarter of it a step takes as long")
    change = Change("work", ratio.clip(0.0, 1.0))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"a batch of {size}, {trial.detail.get('dtype')}, is copied to the device for every step; with one "
                f"byte a number the step took {units.percent_range(ratio)} of its time"
            ),
            site=training.site,
            change=change,
            evidence={
                "bytes": trial.detail.get("bytes"),
                "dtype": trial.detail.get("dtype"),
                "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high},
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost, source
    return Fix("hand over uint8 and cast in the model: keras.layers.Rescaling(1 / 255) first", "same")

"""Validation takes more time than it is worth.

## What is wrong

`fit` validates after every epoch.  With short epochs, or much validation data, more time goes into judging the model
than into training it, although it hardly changed since it was judged the last time.

## How it is established

The time of every validation was measured in the run (without tracing, which happens once) and is projected to all
epochs.  Validating every k epochs saves that time, but a stop that waits for three validations without a gain comes up
to 3 (k - 1) epochs later.  So many more epochs of training are paid at the low end of the saving, half of them in the
middle; the k is the one with the best low end.  Where no k is worth that, validation is as it should be: twenty epochs
with a validation of a fifth of their time pass.

Measured with Keras 3.15 on TensorFlow and two cores: 60 epochs of 20 steps with 8,000 samples to validate on spent 69 %
of the run in validation, 455 ms after every 124 ms of training.

## What to do

Pass `validation_freq=k` to `fit`, or validate on fewer batches (`validation_steps`).  Callbacks that watch a validation
loss (`EarlyStopping`, `ReduceLROnPlateau`, `ModelCheckpoint`) see it less often: divide their patience by k.

## When it is not worth it

When the curve itself is the result; when the low end of the saving is below what the run can tell from noise.

## Example

    model.fit(x, y, validation_data=test, epochs=500)                          # slow
    model.fit(x, y, validation_data=test, epochs=500, validation_freq=20)      # fast
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.epoch_costs import EpochCosts, may_stop, rarer, rest_of_epoch
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Cost, Fix, Gap, Site
from fitdoctor.rules import Absent, Clear, Verdict


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: how long a validation takes no source tells."""
    del source
    return iter(())


def measure(training: Training, costs: EpochCosts | None, model: StepModel) -> Verdict:
    """Weigh what validating less often saves against noticing the end later."""
    if training.kind != "fit":
        return Absent(f"{training.kind} does not validate by itself")
    seen = costs is not None and costs.validation.mid > 0
    if not seen and not training.info.get("validates"):
        return Absent("nothing is validated after an epoch")
    if training.epochs < 2:
        return Absent("there is one epoch")
    own = int(training.info.get("validation_freq") or 1)
    if costs is None or (not seen and costs.seen < own):
        raise MissingEvidence(
            Gap(
                "what a validation takes",
                "no epoch that validates was seen to its end",
                Gap.LONGER,
            )
        )
    if own == 1 and costs.validated < costs.seen:
        return Clear("the script says itself in which epochs it validates")
    each, rest = costs.validation, rest_of_epoch(model, training.epochs, "validation")
    found = rarer("validation", each, rest, training.epochs, own, stops=may_stop(training))
    one = units.duration(each.mid * own)
    if found is None:
        return Clear(
            f"a validation takes {one} after {units.duration(rest * own)} of training: to do it less often would save "
            "less than the end, noticed later, could cost"
        )
    often = "every epoch" if own == 1 else f"every {own} epochs"
    return [
        Cost(
            saving=model.with_change(found.change).saving(),
            because=(
                f"a validation takes {one} after {often}, and the training in between {units.duration(rest * own)}; "
                f"every {found.every} epochs it would take {units.duration(each.mid * own / found.every)} per epoch, "
                f"and the end would be noticed {units.duration(found.late_s)} later at worst"
            ),
            site=training.site,
            change=found.change,
            evidence={
                "validation_ms": each.mid * own * 1e3,
                "training_ms": rest * own * 1e3,
                "epochs": training.epochs,
                "validation_freq": found.every,
                "own": own,
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    every = cost.evidence.get("validation_freq", 2)
    call = spots.fit_at(source, cost.site)
    give = (("validation_freq", str(every)),)
    edits = (Arguments(spots.spot(call), give, order=spots.FIT),) if call is not None else ()
    title = f"pass validation_freq={every} to fit, and divide the patience of callbacks that watch it"
    # A stop counts validations, not epochs: beside a new one the patience that was measured would be another.
    return Fix(title, "may change", edits=edits, apart=("wasted-epochs",))

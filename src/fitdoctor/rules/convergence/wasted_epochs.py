"""Most of the epochs came after the best one.

## What is wrong

The validation loss reached its lowest value early and never again.  All epochs after that cost time and make the model
worse on data it has not seen, unless something keeps the best weights.

## How it is established

By the run itself, watched to its end: the validation loss after every epoch.  An early stop is played through on this
curve with a patience that would not have stopped before the best epoch; what it leaves out is the saving.  Another seed
gives another curve: the interval reaches from twice that patience to a stop right after the best epoch.

## What to do

Give `fit` the callback `keras.callbacks.EarlyStopping(patience=..., restore_best_weights=True)`: the training ends when
the validation loss has not improved for so many epochs, with the weights of the best one.

## When it is not worth it

When the best epoch is among the last (then more epochs may even help), when the loss that counts is not the validation
loss, or when the length is part of a schedule (a learning rate that falls to zero at the end).

## Example

    model.fit(x, y, validation_split=0.2, epochs=200)                                               # slow
    stop = keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True)
    model.fit(x, y, validation_split=0.2, epochs=200, callbacks=[stop])                             # fast
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fitdoctor import units
from fitdoctor.edits import Listed
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import ONE_OFF, Training
from fitdoctor.model import Capture, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

FEWEST_EPOCHS = 8
"""A shorter curve does not tell a best epoch from luck."""
LEAST_PATIENCE = 3


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: no pattern in the source says when a model has learnt enough."""
    del source
    return iter(())


def place(source: SourceTree) -> Iterator[Site]:
    """Point at `fit`."""
    for file in source.files:
        for call in file.calls():
            if call.name.endswith(".fit") and call.keyword("epochs") is not None:
                yield call.site


def measure(capture: Capture, training: Training, model: StepModel) -> Verdict:
    """Play an early stop through on the validation curve."""
    curve = [float(each) for each in training.info.get("validation") or ()]
    if training.kind != "fit" or (not curve and not training.info.get("validates")):
        return Absent("nothing is validated after an epoch")
    if "EarlyStopping" in (training.info.get("callbacks") or ()):
        return Clear("an early stop watches the training")
    if "LearningRateScheduler" in (training.info.get("callbacks") or ()) or training.info.get("schedule"):
        return Clear("the number of epochs belongs to a schedule of the learning rate")
    if (capture.meta.get("exit") or {}).get("reason") != "finished":
        raise MissingEvidence(
            Gap(
                "the validation loss of all epochs",
                "the training was not watched to its end",
                "watch it whole: fitdoctor run --whole SCRIPT",
            )
        )
    if len(curve) < FEWEST_EPOCHS:
        return Clear(f"only {len(curve)} epochs")
    best = min(range(len(curve)), key=curve.__getitem__)
    patience = max(LEAST_PATIENCE, _longest_wait(curve[: best + 1]))
    once = sum(training.elsewhere.get(phase, 0.0) for phase in ONE_OFF)
    share = max(0.0, 1 - once / model.whole_s) if model.whole_s > 0 else 0.0
    low, mid, high = (max(0, len(curve) - 1 - best - each) / len(curve) * share for each in (2 * patience, patience, 1))
    saving = Interval(low, mid, high)
    if mid <= 0:
        return Clear(f"the best validation loss came in epoch {best + 1} of {len(curve)}")
    return [
        Cost(
            saving=saving,
            because=(
                f"the validation loss was lowest after epoch {best + 1} of {len(curve)}; a stop with patience "
                f"{patience} leaves out {units.percent_range(saving)} of the training"
            ),
            site=training.site,
            evidence={"best_epoch": best + 1, "epochs": len(curve), "patience": patience},
        )
    ]


def _longest_wait(curve: Sequence[float]) -> int:
    """Return the most epochs that passed between one lowest value and the next."""
    lowest, since, longest = float("inf"), 0, 0
    for value in curve:
        since += 1
        if value < lowest:
            lowest, longest, since = value, max(longest, since), 0
    return longest


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    stop = f"EarlyStopping(patience={cost.evidence.get('patience', LEAST_PATIENCE)}, restore_best_weights=True)"
    call = spots.fit_at(source, cost.site)
    item = f"keras.callbacks.{stop}"
    edits = (Listed(spots.spot(call), "callbacks", item, order=spots.FIT),) if call is not None else ()
    return Fix(f"add {stop} to the callbacks", "may change", edits=edits)

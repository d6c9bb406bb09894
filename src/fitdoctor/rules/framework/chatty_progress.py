"""The progress bar takes time away from the training.

## What is wrong

`fit` with `verbose=1`, its default, counts and averages after every batch and writes up to twenty lines a second.  On a
step of a millisecond that is felt; on a slow sink (a remote terminal, a notebook, a log that is collected line by line)
every write waits.

## How it is established

Every hook of the progress bar was timed in the run, on the very sink that it writes to, and is projected to the whole
training.  Where Keras draws it on a thread of its own, beside the steps, it does not count.

Measured with Keras 3.15 on TensorFlow and two cores, written to a file: 15 µs after a step of 1.8 ms, 0.8 % of it,
which is nothing worth fixing.

## What to do

Pass `verbose=2`: one line per epoch.  The learning is the same.

## When it is not worth it

When somebody watches it; when the low end of the saving is below what the run can tell from noise.

## Example

    model.fit(data, epochs=100)                 # slow, if steps are short or the terminal is far away
    model.fit(data, epochs=100, verbose=2)      # fast
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.callback_costs import CallbackCosts
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Cost, Fix, Gap, Site
from fitdoctor.rules import Absent, Clear, Verdict

BAR = "ProgbarLogger"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: the bar is the default, and usually free."""
    del source
    return iter(())


def measure(training: Training, callbacks: CallbackCosts, model: StepModel) -> Verdict:
    """Project the time in the progress bar to the whole training."""
    if training.kind != "fit":
        return Absent(f"{training.kind} draws no progress bar")
    names = training.info.get("callbacks")
    if training.info.get("verbose") in ("0", "2") or (names is not None and BAR not in names):
        return Absent("no progress bar is drawn")
    if BAR in callbacks.beside:
        return Clear("Keras draws the progress bar on a thread of its own, beside the steps")
    bars = [each for each in callbacks.costs if each.name == BAR and each.rhythm == "step"]
    if not bars:
        what = "the time in the progress bar"
        raise MissingEvidence(Gap(what, "its hooks were not timed", "run it with `fitdoctor run`, or report it"))
    bar = bars[0]
    change = callbacks.without(bar, model)
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"the progress bar takes {units.duration(bar.each.mid)} after every step of "
                f"{units.duration(model.step.mid)}"
            ),
            site=training.site,
            change=change,
            evidence={
                "ms_per_call": bar.each.mid * 1e3,
                "calls_seen": bar.count,
                "training_s": bar.training_s.mid,
                "verbose": training.info.get("verbose"),
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    call = spots.fit_at(source, cost.site)
    edits = (Arguments(spots.spot(call), (("verbose", "2"),), order=spots.FIT),) if call is not None else ()
    return Fix("pass verbose=2 to fit: one line per epoch", "same", edits=edits)

"""Between epochs the training waits for the thread that tunes its pipeline.

## What is wrong

Keras makes a new iterator over a `tf.data.Dataset` for every epoch and lets go of the old one, in the thread that
trains.  Each iterator has a thread that tunes it (AUTOTUNE), which sleeps between two looks: 10 ms at first, then twice
as long each time.  Letting go of the iterator is meant to wake it.  In TensorFlow 2.21 it often sleeps
on, and the training waits until it wakes by itself: for nothing, up to as long as the epoch has lasted.

## How it is established

The run tells how long epochs stood still at their beginning, far longer than it takes to make an iterator.  Why, the
lab tells: it trains short epochs on the very data, with AUTOTUNE and without, in turns, and counts those that stand
still.  The saving is the time that was stood still, by as much as it came less often without AUTOTUNE; the low end
allows for how few epochs were seen.  If a step or a batch takes longer without AUTOTUNE, that is subtracted.

Measured on two cores with TensorFlow 2.21 and Keras 3.15, pictures resized in a parallel map: 12 epochs of 1.6 s took
27 s, 20 s with AUTOTUNE off; 7 of the 11 ends of epochs stood still for 0.7 to 1.0 s.  After two of
three epochs of 10.5 s nothing happened for 9.5 and 9.9 s: the tenth sleep ends 10.2 s after the first begins, the next
one 20.5 s after it.  The losses were the same in every digit.

## What to do

Turn the tuner off with an option of the dataset: the batches are the same, in the same order.  Or keep one iterator for
all epochs, `fit(data.repeat(), steps_per_epoch=n)`: then only the end of the training may stand still (19.8 s, where
that was tried), and a shuffle gives other orders from the second epoch on.

## When it is not worth it

When batches come later without the tuner, which the lab
measures.

## Example

    data = data.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)    # slow
    model.fit(data, epochs=50)

    untuned = tf.data.Options()
    untuned.autotune.enabled = False
    model.fit(data.with_options(untuned), epochs=50)                                                   # fast
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fitdoctor import units
from fitdoctor.edits import Chain, Edit, Insert
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import pauses, spots
from fitdoctor.facts.epoch_costs import EpochCosts
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.pauses import Counted
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import SMALLEST_PROVABLE, StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

EXPERIMENT = "the pipeline without AUTOTUNE"
LOADER = "loader without AUTOTUNE"
NAME = "untuned"
OPTIONS = f"{NAME} = tensorflow.data.Options()\n{NAME}.autotune.enabled = False"
ENOUGH_EPOCHS = 10
_WHY, BY_HAND = "why the training stands still", "try options.autotune.enabled = False in the script"
_DRAWS = 4000


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: every pipeline is tuned by default, and whether that makes it stand still no source tells."""
    del source
    return iter(())


def measure(
    training: Training, pipeline: InputPipeline, costs: EpochCosts | None, trials: Trials, model: StepModel
) -> Verdict:
    """Take the time stood still from the run, and what stays of it from the experiment."""
    if pipeline.adapter != "tf.data":
        return Absent(f"the input is {pipeline.adapter}, not tf.data: nothing tunes it")
    if training.backend != "tensorflow":
        return Absent(f"{training.backend} lets go of its data after the last step, which is part of every epoch's end")
    if pipeline.options.get("autotune") is False:
        return Clear("AUTOTUNE is off: what stands still between epochs is something else")
    pause, whole, lab = model.elsewhere.get("pause", 0.0), model.whole_s, pauses.in_the_lab(trials.trials)
    stalls = costs.stalls if costs is not None else ()
    run = Counted(sum(each > 0 for each in stalls), len(stalls), sum(stalls))
    if lab is not None and lab.as_is.count and not run.count:
        # Capped all the same: without the lab nothing would tell why.
        steps = ENOUGH_EPOCHS * int(training.info.get("steps_per_epoch") or 0)
        raise MissingEvidence(
            Gap(
                "how long the training stands still",
                f"{_told(lab.as_is)} short epochs of the lab did, {_told(run)} that were watched",
                f"watch more epochs: --steps {steps}" if steps else Gap.LONGER,
            )
        )
    if pause <= max(model.overhead, SMALLEST_PROVABLE) * whole:
        told = f"for {units.duration(pause)} of {units.duration(whole)}" if pause > 0 else "never"
        return Clear(f"the training stood still between epochs: {told}")
    if training.kind != "fit":
        raise MissingEvidence(Gap(_WHY, "the lab trains without the tuner with fit only", BY_HAND))
    if not run.count:
        raise MissingEvidence(Gap(_WHY, "it was not seen at the beginning of an epoch", Gap.LONGER))
    ratio, _ = trials.ratio(pauses.WITHOUT_TUNER, experiment=EXPERIMENT)
    if lab is None or not lab.as_is.count:
        seen = "no short epoch of the lab did" if lab is None else f"{_told(lab.as_is)} short epochs of the lab did"
        raise MissingEvidence(Gap(_WHY, seen, BY_HAND))
    here, there = lab.as_is, lab.without
    stays = _stays(here, there)
    if stays.mid >= 1:
        return Clear(f"{_told(there)} short epochs stood still without AUTOTUNE too, {_told(here)} with it")
    # Another run may stand still less often than this one did.
    both = Counted(run.count + here.count, run.of + here.of, 0.0)
    seldom = min(1.0, _ends(_shares(both))[0] * both.of / both.count)
    remaining = Interval(stays.low, stays.mid, max(stays.mid, 1 - (1 - stays.high) * seldom))
    change = Change("pause", remaining, once=_slower(ratio, trials, model))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{_told(run)} epochs stood still for {units.duration(run.seconds / run.count)} at their beginning; of "
                f"short epochs in the lab {_told(here)} did, {_told(there)} with AUTOTUNE off"
            ),
            site=next((each.site for each in pipeline.operators or () if each.op != "Options"), None),
            change=change,
            evidence={
                "stalls": [round(each, 3) for each in stalls],
                "lab": {"with": [here.count, here.of], "without": [there.count, there.of]},
                "step": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high},
            },
            # It is timed by itself: however much steps vary, they are no part of it.
            noise=max(model.overhead, SMALLEST_PROVABLE),
        )
    ]


def _told(found: Counted) -> str:
    return f"{found.count or 'none'} of {found.of}"


def _stays(found: Counted, left: Counted) -> Interval:
    """Return what stays of the time stood still, where so much is left without the tuner."""
    mid = min(1.0, (left.seconds / left.of) / (found.seconds / found.of))
    low, high = _ends(_shares(left) / _shares(found))
    return Interval(min(mid, low), mid, min(1.0, max(mid, high)))


def _shares(found: Counted) -> NDArray[float64]:
    """Return what share of all epochs may stand still, as so few say it: draws from Jeffreys' posterior."""
    import numpy as np

    draws = np.random.default_rng(found.count + 1)
    return draws.beta(found.count + 0.5, found.of - found.count + 0.5, _DRAWS)


def _ends(draws: NDArray[float64]) -> tuple[float, float]:
    """Return the range that holds it 19 times in 20."""
    import numpy as np

    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)


def _slower(ratio: Interval, trials: Trials, model: StepModel) -> Interval:
    """Return the seconds that all steps take longer without AUTOTUNE; that they might be shorter is not counted.

    Where they may take just as long, nothing is expected, and what they may take longer is the worst.
    """
    if model.input_bound:
        loader = trials.ratio(LOADER, experiment=EXPERIMENT)[0]
        ratio = Interval(*(max(pair) for pair in zip(ratio.ends, loader.ends, strict=True)))
    longer = [max(0.0, each - 1) * model.planned_steps * model.step.mid for each in ratio.ends]
    return Interval(longer[0], longer[1] if ratio.low > 1 else longer[0], longer[2])


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    title = (
        "turn the tuner off: options = tf.data.Options(); options.autotune.enabled = False; data.with_options(options)"
    )
    return Fix(title, "same", edits=_edits(cost, source))


def _edits(cost: Cost, source: SourceTree | None) -> tuple[Edit, ...]:
    """Give the options to the end of the pipeline, unless the file has other ones or the name already."""
    last = spots.end_of_pipeline(source, cost.site)
    if last is None or "with_options" in last.file.text or NAME in last.file.text:
        return ()
    return (Insert(last.file.path, OPTIONS), Chain(spots.spot(last), f".with_options({NAME})"))

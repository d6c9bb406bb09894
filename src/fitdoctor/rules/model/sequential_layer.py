"""A recurrent layer goes through the sequence position by position and takes most of the step.

## What is wrong

`LSTM`, `GRU` and `SimpleRNN` need the result of each position for the next one.  However many cores there are, a
sequence of 200 positions is 200 small multiplications one after the other, and as many launches.

## How it is established

The lab timed every layer of the model alone on the very inputs it gets, forward and backward.  The recurrent layer must
take most of the step, at the low end of what was measured.  In turns with it the lab timed as many multiplications made
at all positions at once, in one `Dense` layer: what the layer takes beyond that is the price of the order, not of the
work.  A layer in its place needs work of its own: the saving is a range, in which it has one to three times as many
multiplications (twice in the middle).

## What to do

Convolutions over the sequence (`Conv1D` with `padding="causal"`, several with growing `dilation_rate`), attention, or
shorter sequences.  Another layer is another model: whether it learns as well is for you to try.

## When it is not worth it

Where a layer is so wide that each position keeps the cores busy, nothing is lost by the order.  Where the step waits
for its input, a lighter model only waits longer.  Where the backend's own implementation of the very layer does most of
it, that is the better answer (generic-rnn).

## Example

    keras.layers.LSTM(64)                                                              # slow
    keras.layers.Conv1D(64, 5, padding="causal"), keras.layers.GlobalMaxPooling1D()    # fast
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.layers import LayerCost, Layers, as_in_the_step, instead, line_of, measured, outline
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site, Trial
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

TRIAL = "all positions at once"
KERNEL = "recurrent kernel"
MOST = 0.5
WORK = (3, 2, 1)
"""How many times the multiplications a layer in its place may need: at worst, in the middle, at best."""


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: a recurrent layer is no fault, what it costs no source tells."""
    del source
    return iter(())


def measure(
    training: Training, trials: Trials, model: StepModel, layers: Layers | None, source: SourceTree | None
) -> Verdict:
    """Compare the costliest recurrent layer with as many multiplications made at once."""
    names = outline(training).get("recurrent") or []
    if not names:
        return Absent("the model has no recurrent layer")
    if model.input_bound:
        return INPUT_BOUND
    costs = measured(layers, trials, model)
    here = _costliest(costs, [str(name) for name in names])
    assert here.seconds is not None
    share = costs.share(here.seconds)
    if share.low <= MOST:
        return Clear(f"{here.name} takes {units.percent_range(share)} of a step, not most of it")
    trial = instead(trials, TRIAL, here.name)
    gain = _gain(trial).scale(here.count)
    if gain.mid <= 0:
        return Clear(f"made at once, the multiplications of {here.name} were measured to take about as long")
    change = Change("work", costs.stays(as_in_the_step(gain, here, trial)))
    if _kernel_does(trials, model, model.with_change(change).saving()):
        return Clear(f"the backend's own implementation of {here.name} does most of it: generic-rnn judges that")
    positions = trial.detail.get("positions")
    at_once = statistics.median(trial.changed_ns) / 1e9
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{here.name} goes through {positions} positions one after the other and takes "
                f"{units.percent_range(share)} of a step ({units.duration(here.seconds.mid)}); as many multiplications "
                f"made at once took {units.duration(at_once)}"
            ),
            site=line_of(source, here.kind, here.name, trial.detail.get("units")),
            change=change,
            evidence={
                "layer": here.name,
                "kind": here.kind,
                "positions": positions,
                "layer_ms": here.seconds.mid * 1e3,
                "at_once_ms": at_once * 1e3,
                "gain_ms": {"low": gain.low * 1e3, "mid": gain.mid * 1e3, "high": gain.high * 1e3},
            },
        )
    ]


def _kernel_does(trials: Trials, model: StepModel, saving: Interval) -> bool:
    """Tell whether the same layer, as the backend wants it, saves most of what another layer would."""
    try:
        ratio, _ = trials.ratio(KERNEL)
    except MissingEvidence:
        return False
    own = model.with_change(Change("work", ratio.clip(0.0, 1.0))).saving()
    return ratio.high < 1 and own.mid >= MOST * saving.mid


def _costliest(layers: Layers, names: list[str]) -> LayerCost:
    found = [each for name in names if (each := layers.named(name)) is not None]
    measured_ = [each for each in found if each.seconds is not None]
    if not measured_:
        reason = found[0].why if found else "none of them was called"
        raise MissingEvidence(Gap("the time of the recurrent layers", reason, "give it more time with --budget"))
    return max(measured_, key=lambda each: each.seconds.mid if each.seconds is not None else 0.0)


def _gain(trial: Trial) -> Interval:
    """Return seconds of a call beyond its multiplications, as often as a layer in its place may need them."""
    alone, at_once = statistics.median(trial.baseline_ns) / 1e9, statistics.median(trial.changed_ns) / 1e9
    low, mid, high = (alone - times * at_once for times in WORK)
    return Interval(low, mid, high)


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    return Fix(f"a layer that takes all positions at once in the place of {cost.evidence.get('layer')}", "manual")

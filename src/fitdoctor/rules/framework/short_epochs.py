"""Epochs are so short that what comes between them takes the time.

## What is wrong

Between two epochs Keras resets its metrics, runs callbacks and makes the iterator over the data anew, twice where the
data says how long it is; what the old one had prepared is thrown away.  That takes milliseconds to tenths of a second,
whatever the epoch does.  Hundreds of epochs of a few steps are mostly that.

## How it is established

The time between epochs was measured in the run, without validation, callbacks and saving.  What longer epochs would
save of it the lab measured: it trained a few passes over a little of the very data, as epochs and as one epoch over
repeated data, in turns, and timed the way from one pass to the next.  Epochs k times as long are judged k times as
rarely: at the low end of the saving a stop that waits for three epochs without a gain comes 3 (k - 1) of the present
epochs late, in the middle half of that; the k is the one with the best low end.

Measured with Keras 3.15 on TensorFlow and two cores: 800 epochs of five batches took 13.9 and 14.1 s, 40 epochs over
the same data repeated 20 times 9.3 and 10.0 s, start-up not counted.

Workers that are ended and started with every epoch are another cause: worker-churn; so are arrays that are cast as a
whole in every epoch: large-array-copy.

## What to do

Repeat the data and train fewer, longer epochs: `data.repeat(k)` with a k-th of the `epochs`, or `steps_per_epoch=` on
data that never ends.  The model sees the same batches; metrics, validation and callbacks come every k passes.

## When it is not worth it

When every pass has to be judged; with few epochs; when the low end of the saving is below what the run can tell from
noise.

## Example

    model.fit(data, epochs=1000)                # slow, if data has five batches
    model.fit(data.repeat(25), epochs=40)       # fast
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments, Edit, Wrap
from fitdoctor.facts import spots
from fitdoctor.facts.epoch_costs import EpochCosts, may_stop, rarer, rest_of_epoch
from fitdoctor.facts.provable.functions import is_bound_once
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "longer epochs"
LARGE_BYTES = 16 << 20
"""Epochs over larger arrays are not short, and what comes between them is theirs."""
_BY_EPOCHS = frozenset({"LearningRateScheduler", "ReduceLROnPlateau", "EarlyStopping"})
"""Callbacks for which an epoch is a unit of learning."""


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: how long an epoch takes no source tells."""
    del source
    return iter(())


def measure(training: Training, costs: EpochCosts | None, trials: Trials, model: StepModel) -> Verdict:
    """Weigh what fewer, longer epochs save against judging the training less often."""
    if training.kind != "fit":
        return Absent(f"{training.kind} has no epochs of Keras's")
    if training.epochs < 2:
        return Absent("there is one epoch")
    if costs is None:
        return Clear(f"no epoch ended in {training.steps:,} steps: they are not short")
    if training.info.get("adapter") in ("PyDataset", "DataLoader") and training.info.get("workers"):
        return Clear("what its workers do between epochs is judged by worker-churn")
    size = sum(int(each.get("bytes") or 0) for each in training.info.get("arrays") or ())
    if size >= LARGE_BYTES:
        return Clear(f"what is done to {units.size(size)} of arrays between epochs is judged by large-array-copy")
    rest = rest_of_epoch(model, training.epochs, "between epochs")
    told = f"from one epoch to the next it takes {units.duration(costs.between.mid)}, an epoch {units.duration(rest)}"
    if rarer("between epochs", costs.between, rest, training.epochs) is None:
        return Clear(f"{told}: longer epochs would save less than judging the training more rarely could cost")
    ratio, trial = trials.ratio(EXPERIMENT, experiment=EXPERIMENT)
    if ratio.mid >= 1:
        return Clear(f"{told}, and in one long epoch just as long")
    anew = statistics.median(trial.baseline_ns) / 1e9
    fixed, stops = _fixed(costs.between, anew, ratio), may_stop(training)
    found = rarer("between epochs", fixed, rest, training.epochs, part_s=costs.between.mid, stops=stops)
    passed = (
        f"the way to the next pass took {units.duration(anew)}, in one long epoch {units.percent_range(ratio)} of it"
    )
    if found is None:
        return Clear(f"{told}; {passed}")
    watched = sorted(_BY_EPOCHS & {*(training.info.get("callbacks") or ())})
    return [
        Cost(
            saving=model.with_change(found.change).saving(),
            because=f"{told}, {training.epochs} times; {passed}",
            site=training.site,
            change=found.change,
            evidence={
                "between_ms": costs.between.mid * 1e3,
                "epoch_ms": rest * 1e3,
                "epochs": training.epochs,
                "times": found.every,
                "anew_ms": anew * 1e3,
                "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high},
                "watched": watched,
            },
        )
    ]


def _fixed(between: Interval, anew_s: float, ratio: Interval) -> Interval:
    """Return the seconds between two epochs that one long epoch does not have.

    What the run spends beyond what the lab saw is something else (data that is prepared, memory that is given back), or
    the same, slower in the run: at worst none of it is, at best all, in the middle half.
    """
    held = min(1.0, anew_s / between.mid) if between.mid > 0 else 0.0
    ends = ((between.low, held, ratio.high), (between.mid, (1 + held) / 2, ratio.mid), (between.high, 1.0, ratio.low))
    return Interval(*(seconds * share * max(0.0, 1 - stays) for seconds, share, stays in ends))


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    call = spots.fit_at(source, cost.site)
    times = _dividing(_epochs(call), int(cost.evidence.get("times", 10)))
    title = f"repeat the data {times} times per epoch (data.repeat({times})) and train 1/{times} of the epochs"
    watched = cost.evidence.get("watched")
    edits = _edits(call, times)
    if not watched:
        return Fix(title, "same", edits=edits)
    return Fix(f"{title}; {', '.join(watched)} will count those", "may change", edits=edits)


def _epochs(call: FoundCall | None) -> int | None:
    """Return the number of epochs that a call is surely given: it stands there, or in a name that never changes."""
    given = call.argument(3, "epochs") if call is not None else None
    if call is None or given is None or (isinstance(given, ast.Name) and not is_bound_once(call.file, given.id)):
        return None
    value = call.file.constant(given)
    return value if type(value) is int and value > 0 else None


def _dividing(epochs: int | None, times: int) -> int:
    """Return a number a little below that the epochs can be divided by, where there is one."""
    near = [each for each in range(times, times // 2, -1) if epochs is not None and epochs % each == 0]
    return near[0] if near and near[0] > 1 else times


def _edits(call: FoundCall | None, times: int) -> tuple[Edit, ...]:
    """Repeat a dataset of tf.data, where the number of epochs is known and can be divided."""
    epochs = _epochs(call)
    data, given = (call.argument(0, "x"), call.argument(3, "epochs")) if call is not None else (None, None)
    if call is None or not isinstance(data, ast.Name) or given is None or epochs is None or epochs % times:
        return ()
    chain = call.file.chain(data)
    ours = bool(chain) and chain[0].name.startswith("tensorflow.data.")
    counting = ("steps_per_epoch", "initial_epoch", "validation_freq")
    counted = any(call.argument(spots.FIT.index(each), each) is not None for each in counting)
    counted = counted or any(each.arg is None for each in call.node.keywords)
    if not ours or counted:
        return ()
    place = spots.spot(call)
    fewer = f"{given.id} // {times}" if isinstance(given, ast.Name) else str(epochs // times)
    return (
        Wrap(place, "x", f"{{}}.repeat({times})", order=spots.FIT),
        Arguments(place, (("epochs", fewer),), order=spots.FIT),
    )

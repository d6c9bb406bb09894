"""Every epoch begins with a pause while a large shuffle buffer is filled.

## What is wrong

`shuffle(n)` gives its first element once it holds n.  Where each of them was read, decoded and resized before, an epoch
begins by doing so n times while the model waits, and all of them stay in memory.

## How it is established

Both must hold:

- in the run, the first step of an epoch was measured to take longer than the others;
- in the lab, a first batch came sooner with the same shuffle before the maps (or, where no map stands below it, with
  a buffer an eighth as large), in turns with the user's own.  A buffer that takes too long to fill is filled in part,
  and the time scaled: it grows in proportion.

Of the pause that was seen, as much is saved once per epoch as went into filling in the lab: at the low end only what
filling took there, at the high end the whole pause (filling may be slower beside a training).

## What to do

Shuffle what is small, before the work: paths, indices, file names, then `map`.  The order is as random as before.
Where records are read one after the other, a buffer of some batches together with shuffled file names does.

## When it is not worth it

When elements are cheap (indices, rows of an array in memory): a buffer of a million of them is filled in a moment.  In
long epochs, where a pause of a second is nothing.

## Example

    data.map(load).shuffle(10_000).batch(32)     # slow: loads 10,000 pictures first
    data.shuffle(10_000).map(load).batch(32)     # fast: shuffles 10,000 paths
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Swap
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows, spots
from fitdoctor.facts.elements import place_of
from fitdoctor.facts.epoch_starts import EpochStarts
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.mapped import called_in, method, upstream
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import SMALLEST_PROVABLE, StepModel, stays
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site, Trial
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "a shuffle that is filled sooner"
_WORK = ("read_file", "decode_jpeg", "decode_png", "decode_image", "decode_wav", "numpy_function", "py_function")


SUSPICION = "may pause every epoch while the buffer fills with elements that are read or decoded already"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find shuffles of what a map has read or decoded, with no cache in between."""
    for file in source.files:
        for call in file.calls_of("shuffle"):
            if _of_work(file, upstream(file, call)):
                yield call.site


def _of_work(file: SourceFile, before: list[FoundCall]) -> bool:
    for call in reversed(before):
        if method(call) == "cache":
            return False
        if any(name.rpartition(".")[2] in _WORK for name in called_in(file, call)):
            return True
    return False


def measure(
    training: Training, pipeline: InputPipeline, trials: Trials, model: StepModel, starts: EpochStarts | None
) -> Verdict:
    """Weigh the pause that was seen against what a shuffle that is filled sooner takes."""
    if pipeline.adapter != "tf.data" or pipeline.operators is None:
        return Absent(f"the input is {pipeline.adapter}, not tf.data")
    if not any(each.op == "Shuffle" for each in pipeline.operators):
        return Absent("the pipeline has no shuffle")
    if training.epochs < 2:
        return Absent("there is one epoch: the buffer is filled once")
    if starts is None or training.steps_per_epoch is None:
        raise MissingEvidence(
            Gap(
                "the beginning of an epoch",
                "no second epoch was seen to begin",
                Gap.LONGER,
            )
        )
    epoch_s = training.steps_per_epoch * model.step.mid
    noise = max(starts.noise, model.overhead, SMALLEST_PROVABLE)
    if starts.pause.high <= noise * epoch_s:
        return Clear("the first step of an epoch takes no longer than the others")
    _, trial = trials.ratio("shuffle filled sooner", experiment=EXPERIMENT)
    sooner = _sooner(trial)
    if sooner.high <= 0:
        return Clear("a shuffle of smaller elements gives its first batch no sooner")
    filling = rows.median(trial.baseline_ns).mid * _scale(trial)
    left = stays(_left(sooner, filling), filling, starts.pause.mid)
    saved = (starts.pause.low * (1 - left.high), starts.pause.mid * (1 - left.mid), starts.pause.high * (1 - left.low))
    change = Change("step", Interval(*(1 - each / epoch_s for each in reversed(saved))).clip(0.0, 1.0))
    buffer, held = int(trial.detail["buffer"]), trial.detail.get("element_bytes")
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"the first step of each of {training.epochs} epochs takes {units.duration(starts.pause.mid)} longer: "
                f"a buffer of {buffer:,} elements is filled first{_memory(held, buffer)}; with {_how(trial)} the first "
                f"batch came {units.duration(max(0.0, sooner.mid))} sooner"
            ),
            site=place_of(trial),
            change=change,
            evidence={
                "pause_s": starts.pause.mid,
                "sooner_s": sooner.mid,
                "buffer": buffer,
                "element_bytes": held,
                "smaller": trial.detail.get("smaller"),
            },
            noise=noise,
        )
    ]


def _scale(trial: Trial) -> float:
    """Return the seconds with the whole buffer for each nanosecond of what was tried."""
    return float(trial.detail.get("scale") or 1.0) / 1e9


def _sooner(trial: Trial) -> Interval:
    """Return by how many seconds the first batch comes sooner, with the whole buffer."""
    pairs = zip(trial.baseline_ns, trial.changed_ns, strict=False)
    differences = [(before - after) * _scale(trial) for before, after in pairs]
    if len(differences) < 2:
        mid = differences[0]
        return Interval.around((0.5 * mid, mid, 1.5 * mid))
    return rows.median(differences)


def _left(sooner: Interval, filling: float) -> Interval:
    """Return the share of the time to the first batch that stays."""
    return Interval(*(1 - each / filling for each in (sooner.high, sooner.mid, sooner.low))).clip(0.0, 1.0)


def _memory(element: object, buffer: int) -> str:
    return f" ({units.size(element * buffer)} of memory)" if isinstance(element, int) and element else ""


def _how(trial: Trial) -> str:
    smaller = trial.detail.get("smaller")
    return f"a buffer of {int(smaller):,}" if smaller else "the shuffle before the maps"


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    smaller = cost.evidence.get("smaller")
    if smaller:
        return Fix(f"shuffle file names, then elements with a buffer of some batches ({smaller:,})", "may change")
    call = spots.call_at(source, cost.site, "shuffle")
    before = [each for each in (upstream(call.file, call) if call is not None else ()) if method(each) == "map"]
    nearest = spots.the_only(before)
    follows = spots.next_in_chain(nearest, "shuffle") if nearest is not None else None
    sure = call is not None and nearest is not None and follows is not None and follows.node is call.node
    edits = (Swap(spots.spot(nearest), spots.spot(call)),) if sure and nearest is not None and call is not None else ()
    return Fix("move .shuffle() before the map, where elements are still small", "may change", edits=edits)

"""Batches are padded far past the real lengths of their sequences.

## What is wrong

Sequences of very different lengths are brought to the length of the longest one, of the whole data or of the batch.
The model computes on padding as it does on words.

## How it is established

The script or its pipeline pads (`pad_sequences`, `padded_batch`, `TextVectorization`, a tokenizer).  The lab counts, on
some batches, how long each sequence is without the run of padding at its end (or front); values are only counted,
never kept.  From the lengths follows what each batch would be padded to if sequences of like length came together.  The
lab then trains on one batch cut to the mean of the shorter half and of the longer half of those lengths, in turns with
the batch as long as batches are now.  A model that takes sequences of one fixed length cannot be tried so, and is
`unknown`.

## What to do

`tf.data`: `bucket_by_sequence_length` in place of `padded_batch`.  Arrays: sort by length, or cut each batch to its
longest sequence, in a `PyDataset`.  The model must take sequences of any length: `keras.Input((None,))`.  Batches hold
other samples than before: the learning may change.

## When it is not worth it

When lengths hardly differ; when the step waits for its input; when the padded part of the model is not what takes its
time.

## Example

    x = keras.utils.pad_sequences(texts, maxlen=400)                                      # slow

    data = data.bucket_by_sequence_length(                                                # fast
        lambda text, label: tf.size(text), [50, 100, 200], bucket_batch_sizes=[32] * 4
    )
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Edit, Rename, Wrap
from fitdoctor.facts import spots
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.mapped import method
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Interval, Site, Trial
from fitdoctor.rules import INPUT_BOUND, Absent, Clear, Verdict

EXPERIMENT = "batches of like lengths"
_PADS = ("pad_sequences", "padded_batch", "pad_sequence", "to_tensor")
_SHORT = 32
"""Positions; so few are computed at once."""
_BUCKETS = ("bucket_by_sequence_length",)


SUSPICION = "may compute mostly on padding: all sequences are brought to one length"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find what brings all sequences to one length, in files that put no sequences of like length together."""
    for file in source.files:
        if source.trains and not any(file.calls_of(*_BUCKETS)):
            found = [*file.calls_of("pad_sequences"), *file.calls_of("TextVectorization"), *file.calls_with("padding")]
            sites = {call.site for call in found if _to_one_length(call)}
            yield from sorted(sites, key=lambda site: site.line)


def place(source: SourceTree) -> Iterator[Site]:
    """Find what pads."""
    for call in source.calls():
        if _pads(call):
            yield call.site


def _to_one_length(call: FoundCall) -> bool:
    padding = call.keyword("padding")
    longest = isinstance(padding, ast.Constant) and padding.value == "max_length"
    length = call.keyword("output_sequence_length" if method(call) == "TextVectorization" else "maxlen")
    said = call.file.constant(length)
    if isinstance(said, int) and said < _SHORT:
        return False
    return method(call) == "pad_sequences" or longest or (method(call) == "TextVectorization" and length is not None)


def _pads(call: FoundCall) -> bool:
    return method(call) in _PADS or _to_one_length(call)


def measure(pipeline: InputPipeline, trials: Trials, model: StepModel, source: SourceTree | None) -> Verdict:
    """Take the cost of shorter batches from the experiment and the gain of the training from the model."""
    operators = pipeline.operators or ()
    padding = [each for each in operators if each.op == "PaddedBatch" or each.pads]
    if not padding and (source is None or not any(map(_pads, source.calls()))):
        return Absent("nothing in the pipeline or the source pads sequences")
    if model.input_bound:
        return INPUT_BOUND
    model.need("compute")
    halves = [trials.ratio(name, experiment=EXPERIMENT) for name in ("shorter batches", "longer batches")]
    trial = halves[0][1]
    real, padded = int(trial.detail["real"]), int(trial.detail["padded"])
    ratio = Interval(*(sum(each) / len(halves) for each in zip(*(_ends(found) for found, _ in halves), strict=True)))
    if ratio.low >= 1:
        return Clear(f"batches of like lengths take as long ({_counted(trial)})")
    change = Change("work", ratio.clip(0.0, 1.0))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{units.percent(1 - real / max(1, padded))} of all positions are padding ({_counted(trial)}); on "
                f"batches of like lengths a step took {units.percent_range(ratio)} of the time"
            ),
            site=padding[0].site if padding else None,
            change=change,
            evidence={
                "real_positions": real,
                "padded_positions": padded,
                "lengths_tried": [found.detail.get("length") for _, found in halves],
                "pipeline": bool(padding),
                "bounds": trial.detail.get("bounds") if trial.detail.get("alone") else None,
            },
        )
    ]


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.low, interval.mid, interval.high


def _counted(trial: Trial) -> str:
    mean, batch = float(trial.detail["mean_length"]), float(trial.detail["batch_length"])
    return f"{trial.detail['sequences']:,} sequences are {mean:.0f} long on average, their batches {batch:.0f}"


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    if cost.evidence.get("pipeline"):
        title = "put sequences of like length together: bucket_by_sequence_length"
        return Fix(title, "may change", edits=tuple(_bucketed(cost, source)))
    return Fix("put sequences of like length together and cut each batch to its longest one", "may change")


def _bucketed(cost: Cost, source: SourceTree | None) -> Iterator[Edit]:
    """Let the call that pads put sequences of like length together; its other arguments mean the same there."""
    bounds = cost.evidence.get("bounds")
    call = spots.call_at(source, cost.site, "padded_batch")
    # What may come fourth is not the same there.
    if not bounds or call is None or not 1 <= len(call.node.args) <= 3:
        return
    length = "lambda sequence, *_: tensorflow.shape(sequence)[0]"
    yield Wrap(spots.spot(call), "batch_size", f"{length}, {bounds}, [{{}}] * {len(bounds) + 1}", order=("batch_size",))
    yield Rename(spots.spot(call), "bucket_by_sequence_length")

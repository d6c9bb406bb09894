"""Large arrays are copied as a whole in every epoch.

## What is wrong

Keras calculates in its own precision (float32).  Arrays of floating-point numbers in another one, such as NumPy's
default of 64 bits, or 16 bits to save memory, are cast as a whole whenever an epoch begins: gigabytes are copied before
the first step, the memory of a second array comes and goes, and the device waits.

## How it is established

The lab went from one epoch to the next on the user's own arrays, in turns with the same arrays cast once before.  What
stays of the time between epochs of the very run follows.

Keras 3.15: on JAX and torch arrays of another floating-point precision are cast when an iterator is made, which happens
at the end of an epoch and again at the beginning of the next: twice per epoch.  On TensorFlow they are cast and copied
into a tensor once per `fit`.  Whole numbers (uint8 pictures, class numbers) and float32 are sliced batch by batch on
JAX and torch, and not copied as a whole.  47 million numbers, until the first batch of an epoch was there (two cores):

| arrays of | JAX | torch | TensorFlow (and once per `fit`) |
|---|---|---|---|
| float64 | 43 ms | 50 ms | 19 ms (1.6 s) |
| float16 | 151 ms | 122 ms | 22 ms (0.4 s) |
| float32 | 1.1 ms | 2.3 ms | 20 ms (1.0 s) |
| uint8 | 1.0 ms | 2.4 ms | 17 ms (0.1 s) |

## What to do

Cast once, before `fit`: `x = x.astype("float32")`.  Keras does the same cast, so the model sees the same values in the
same order.  Where the array barely fits, keep it as float32 (or uint8) in a file and open it with
`np.load(..., mmap_mode="r")`: batches are then read as they are needed.

## When it is not worth it

With long epochs on small arrays; with one epoch.

## Example

    x = np.random.rand(60_000, 784)                         # slow: 64 bits
    x = np.random.rand(60_000, 784).astype("float32")       # fast
    model.fit(x, y, epochs=100)
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from fitdoctor import units
from fitdoctor.edits import Wrap
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.rewrites import believed
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel, stays
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "arrays in Keras's precision"
LARGE_BYTES = 16 << 20
"""Smaller arrays are not tried: they are cast in a few milliseconds."""


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: the precision of an array is not seen in the source."""
    del source
    return iter(())


def measure(training: Training, pipeline: InputPipeline, trials: Trials, model: StepModel) -> Verdict:
    """Compare how an epoch begins on the arrays as they are and cast before."""
    if pipeline.adapter != "arrays":
        return Absent(f"the input is {pipeline.adapter}, not arrays")
    if training.epochs < 2:
        return Absent("there is one epoch")
    arrays = training.info.get("arrays")
    if arrays is None:
        what = "the sizes and types of the arrays"
        raise MissingEvidence(Gap(what, "the capture does not hold them", "run again with this fitdoctor"))
    floatx = str(training.info.get("dtype") or "float32")
    cast = [each for each in arrays if _other_precision(each, floatx)]
    if not cast:
        return Clear("no array is in another precision than Keras's: none is copied as a whole")
    size = sum(int(each.get("bytes") or 0) for each in cast)
    if size < LARGE_BYTES:
        return Clear(f"the arrays in another precision are small ({units.size(size)})")
    ratio, trial = trials.ratio("epoch begun on cast arrays", experiment=EXPERIMENT)
    between = model.elsewhere.get("between epochs", 0.0) / training.epochs
    anew = statistics.fmean(trial.baseline_ns) / 1e9
    if ratio.mid >= 1 or between <= 0:
        return Clear(f"an epoch on arrays that were cast before begins no sooner (in {units.duration(anew)})")
    # The cast that is made once takes about as long as one of the two between epochs.
    once = Interval(0.25, 0.5, 1.0).scale(anew)
    change = believed(trials, trial.name, Change("between epochs", stays(ratio, anew, between), once=once), model)
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{units.size(size)} of {cast[0].get('dtype')} are cast anew in each of {training.epochs} epochs: from "
                f"one to the next it took {units.duration(anew)}, with arrays cast before {units.percent_range(ratio)} "
                "of that"
            ),
            site=training.site,
            change=change,
            evidence={
                "bytes": size,
                "dtype": cast[0].get("dtype"),
                "floatx": floatx,
                "arrays": len(arrays),
                "cast": [place for place, each in enumerate(arrays) if each in cast],
                "anew_ms": anew * 1e3,
                "between_ms": between * 1e3,
                "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high},
            },
        )
    ]


def _other_precision(array: Mapping[str, Any], floatx: str) -> bool:
    name = str(array.get("dtype"))
    return name in ("float16", "float32", "float64") and name != floatx


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    title = 'cast the arrays once, before fit: x = x.astype("float32")'
    call = spots.fit_at(source, cost.site)
    return Fix(title, "same", edits=tuple(_casts(call, cost.evidence)) if call is not None else ())


def _casts(call: FoundCall, evidence: Mapping[str, Any]) -> Iterator[Wrap]:
    """Cast what is in another precision, where the arrays are those that `fit` is given one by one."""
    given = [name for place, name in enumerate(("x", "y")) if call.argument(place, name) is not None]
    if len(given) != evidence.get("arrays") or evidence.get("floatx") != "float32":
        return
    for place in evidence.get("cast") or ():
        yield Wrap(spots.spot(call), given[place], 'numpy.asarray({}, "float32")', order=spots.FIT)

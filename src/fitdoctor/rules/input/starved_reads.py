"""Reads wait for a disk, a store or a network, and too few wait at a time.

## What is wrong

Reading a file from an object store, a network drive or a slow disk takes milliseconds in which no core does anything.
How fast elements come then depends only on how many reads are under way at once.  One after the other is slowest; and
`num_parallel_calls=tf.data.AUTOTUNE` never makes more calls at a time than there are cores: on a small machine that is
far too few.

## How it is established

The lab built the pipeline again with 16 and 64 calls of the reading map at a time, on threads of their own, order kept
(and, where an interleave or a `flat_map` reads files one after the other, with several files at a time), compared what
comes out with the original, and pulled batches in turns with the pipeline as it is.  Where the cores were busy while
batches were made, nothing waits and nothing is tried.  The gain of the step follows from the step model.

Measured on two cores with reads that wait 5 ms, batches of 8: as it is 23 batches a second, AUTOTUNE 45, 64 calls on
their own threads 711.

## What to do

`map(read, num_parallel_calls=64, use_unbounded_threadpool=True)` (where a TensorFlow does not have that:
`options.threading.private_threadpool_size`).  Elements come in the same order.  For record files:
`interleave(open_file, cycle_length=16, num_parallel_calls=16)`, which mixes files, so the order changes.  Each read
that is under way holds its element in memory, and a store may limit how many it answers.  Python that is called must
be safe to be called from several threads.

## When it is not worth it

When the step does not wait for input; when reading is not what takes the time; when the store is at its limit.  Many
very small files are better put into a few large ones (small-files).

## Example

    data.map(read_from_bucket, num_parallel_calls=tf.data.AUTOTUNE)                        # slow
    data.map(read_from_bucket, num_parallel_calls=64, use_unbounded_threadpool=True)       # fast
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.facts import spots
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.rewrites import SERIAL, STARVED, best, felt, gains, only_in_turns, waits
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.trials import Trials, rewrite
from fitdoctor.model import Cost, Fix, Safety, Site
from fitdoctor.rules import Absent, Clear, Verdict

IN_TURNS = "reads would be in time if they were made while the step computes: missing-prefetch judges that"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: whether a read waits is not written in the source."""
    del source
    return iter(())


def measure(pipeline: InputPipeline, trials: Trials, model: StepModel) -> Verdict:
    """Take the rate from the lab's rewrites and the gain of the step from the model."""
    if pipeline.adapter != "tf.data" or pipeline.operators is None:
        return Absent(f"the input is {pipeline.adapter}, not tf.data")
    if pipeline.only_moves:
        return Clear("the pipeline only batches what is in memory: it reads nothing")
    if any(each.kind == "generator" for each in pipeline.functions) and not pipeline.maps:
        return Absent("its elements come from a generator, and are handed on as they are: it reads for itself")
    model.need("input")
    if not felt(trials, model, rewrite(STARVED)):
        return Clear("the step does not wait for input")
    if _only_in_turns(pipeline, model):
        return Clear(IN_TURNS)
    found = gains(trials, model, STARVED)
    if not found:
        return Clear("batches do not come faster with more reads at a time")
    chosen = best(found)
    if only_in_turns(trials, chosen):
        return Clear(IN_TURNS)
    if not waits(trials, model):
        return Clear(f"as many calls as there are cores are as good: {SERIAL} judges that")
    cores = model.input_alone.cores if model.input_alone is not None else None
    busy = f", {cores:.1f} cores busy meanwhile" if cores is not None else ""
    return [
        Cost(
            saving=chosen.saving,
            because=(
                f"reads wait{busy}: with {chosen.trial.detail.get('settings')} "
                f"a batch took {units.percent_range(chosen.ratio)} of the time"
            ),
            site=chosen.site,
            change=chosen.change,
            evidence={
                "code": chosen.code,
                "safety": chosen.trial.detail.get("safety"),
                "equal": chosen.trial.detail.get("equal"),
                "cores": cores,
                "ratios": {str(each.trial.detail.get("settings")): each.ratio.mid for each in found},
            },
        )
    ]


def _only_in_turns(pipeline: InputPipeline, model: StepModel) -> bool:
    """Tell whether the input alone is faster than the step alone, and the two merely take turns."""
    alone, work = model.input_alone, model.work_alone
    if model.works_ahead or pipeline.works_ahead() is not None or alone is None or work is None:
        return False
    return alone.seconds.high < work.seconds.low


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    code = str(cost.evidence.get("code") or ".map(read, num_parallel_calls=64, use_unbounded_threadpool=True)")
    safety: Safety = "same" if cost.evidence.get("safety") == "same" else "may change"
    return Fix(f"write {code}", safety, edits=spots.as_written(source, cost.site, code))

"""Many small files are opened one by one.

## What is wrong

A sample per file means an `open`, a `read` and a `close`, or a request and an answer, per sample.  On a bucket, an NFS
or a FUSE mount each costs a round trip, whatever the size of the file; on a local disk tens of microseconds.  A few
large record files are read in long runs, and pay once for thousands of samples.

## How it is established

Objects fetched over HTTP are timed inside the run, from the request to the beginning of the answer: that part would go
with record files, while the time for the bytes themselves and the loader's own CPU time (measured by the lab) stay.
Files are read again by the lab, as the pipeline reads them, in turns with the same bytes from one record file (both
from memory: what a disk costs the first time is cold-storage).  The gain of the step follows from the step model.

Measured on two cores with TensorFlow 2.21, everything in memory: a file of 1 KiB takes `tf.io.read_file` in a parallel
map 25 to 65 µs, a record of the same size 3 µs; at 16 KiB it is 40 to 70 against 15 to 20 µs, at 100 KB there is no
difference.  Decoding a JPEG of 128 × 128 pixels takes 400 µs.  So on a local disk small files are worth a change only
where almost nothing is done to a sample; on a store, with milliseconds per object, they nearly always are.

## What to do

`fitdoctor shard SRC DST` turns the folder or bucket into record files, resumable and verified, and prints the code that
reads them.  In the order of the paths, or shuffled with `--seed`; the contents are the same to the last byte.

## When it is not worth it

When the step does not wait for input; when the work on a sample takes far longer than opening its file.  More requests
at a time (starved-reads, idle-workers) hide the same round trips without a copy of the data.

## Example

    data = paths.map(lambda path: decode(tf.io.read_file(path)))        # slow

    $ fitdoctor shard pictures/ shards/
    data = tf.data.TFRecordDataset(tf.io.gfile.glob("shards/part-*"))   # fast
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from fitdoctor import units
from fitdoctor.facts import rows
from fitdoctor.facts.fetches import Fetches
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "the same files from one record file"
SHARD_BYTES = 128 << 20
_LOADERS = ("PyDataset", "DataLoader")
_UNCERTAIN = 0.1
"""By how much a wait that was timed in the run may be off, next to another loader."""


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: reading files one by one is how most good scripts begin."""
    del source
    return iter(())


def place(source: SourceTree) -> Iterator[Site]:
    """Find where files are read in TensorFlow."""
    for call in source.calls("tensorflow.io.read_file", "tensorflow.read_file"):
        yield call.site


def measure(
    training: Training, pipeline: InputPipeline, fetches: Fetches | None, trials: Trials, model: StepModel
) -> Verdict:
    """Take what opening costs from the run or the experiment, and the gain of the step from the model."""
    reading = [each for each in pipeline.operators or () if each.reads]
    if fetches is None and not reading and pipeline.adapter not in _LOADERS:
        return Absent(f"the input is {pipeline.adapter}, and reads no files one by one")
    if fetches is None and training.info.get("chunked"):
        return Absent("it reads parts of a chunked file; random-chunk-access judges that")
    model.need("input")
    if model.share("input").high <= model.noise:
        return Clear("the step does not wait for input")
    if fetches is not None:
        return _objects(fetches, int(training.info.get("workers") or 1), model)
    ratio, trial = trials.ratio("one record file", experiment=EXPERIMENT)
    if ratio.high >= 1:
        return Clear("the same bytes from one record file take just as long")
    alone = rows.median(trial.baseline_ns).scale(1e-9 / max(1, int(trial.detail.get("workers") or 1)))
    gone = Interval.around(alone.mid * (1 - each) for each in (ratio.high, ratio.mid, ratio.low))
    count, size = float(trial.detail["files"]), float(trial.detail["file_bytes"])
    mount = trial.detail.get("mount")
    because = (
        f"each step opens {count:.0f} files of {units.size(size)}{f' on {mount}' if mount else ''}: reading them takes "
        f"{units.duration(alone.mid)}, the same bytes from one record file {units.percent_range(ratio)} of that"
    )
    evidence = {"files_per_step": count, "file_bytes": size, "mount": mount, "each_us": alone.mid / count * 1e6}
    return [_cost(gone, model, because, reading[0].function or reading[0].site if reading else None, evidence)]


def _objects(fetches: Fetches, workers: int, model: StepModel) -> Verdict:
    """Count what the wait for answers takes: record files need one request for very many of these objects."""
    if fetches.bytes_each > SHARD_BYTES / 2:
        return Clear(f"the objects it fetches are large: {units.size(fetches.bytes_each)} each")
    waited = fetches.wait_each * fetches.per_step * (1 - fetches.bytes_each / SHARD_BYTES)
    side_by_side = max(1, workers, math.ceil(fetches.at_once - _UNCERTAIN))
    because = (
        f"each step fetches {fetches.per_step:.0f} objects of {units.size(fetches.bytes_each)} and waits "
        f"{units.duration(fetches.wait_each)} for each answer to begin, {fetches.at_once:.1f} at a time"
    )
    evidence = {
        "objects_per_step": fetches.per_step,
        "object_bytes": fetches.bytes_each,
        "wait_ms": fetches.wait_each * 1e3,
        "at_once": fetches.at_once,
    }
    return [_cost(_gone(waited / side_by_side, model), model, because, fetches.site, evidence)]


def _gone(most: float, model: StepModel) -> Interval:
    """Return the seconds per step that go with the waits, where each of several threads waits for its own.

    At most the wait of one thread.  At least what the loader does not compute: its CPU time may hold the GIL.
    """
    alone = model.input_alone
    least = max(0.0, alone.seconds.mid * (1 - min(1.0, alone.cores))) if alone is not None else most / 2
    most = most * (1 + _UNCERTAIN)
    least = min(least, most * (1 - _UNCERTAIN))
    return Interval(least, (least + most) / 2, most)


def _cost(gone: Interval, model: StepModel, because: str, site: Site | None, evidence: Mapping[str, object]) -> Cost:
    """Weigh seconds that go against what the loader takes."""
    whole = model.input_alone.seconds if model.input_alone is not None else model.parts["input"]
    shares = (gone.low / max(whole.high, 1e-12), gone.mid / max(whole.mid, 1e-12), gone.high / max(whole.low, 1e-12))
    change = Change("input", Interval.around(1 - min(1.0, share) for share in shares))
    return Cost(model.with_change(change).saving(), because, site, change, evidence)


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the command."""
    del cost, source
    return Fix("turn them into record files: `fitdoctor shard SRC DST` prints the code that reads them", "same")

"""Worker threads wait for each other: their Python holds the GIL.

## What is wrong

`PyDataset(workers=N)` starts threads.  Python runs one of them at a time; what computes in Python does not get faster
with more of them, and they take the GIL from the training thread besides.

## How it is established

The dataset has worker threads, and the step was measured to wait for input, or to take longer beside the threads than
the lab measured it on a batch that is there: then they kept the GIL from it.  The lab made a batch alone and compared
the CPU time of its thread with the clock; where it computes, it pulled batches from the same dataset with worker
processes, in turns with its own threads.  Where there was time it also trained on such batches, in turns with the
training as it is; then that is what is believed.  A process that gives no batch within seconds is ended, and the rule
says `unknown`.

Workers bring batches sooner but need as many CPU seconds for each, and so does the step: what the cores have left
limits the predicted gain.  Keras starts its processes anew in every epoch; that was timed, and is counted.

## What to do

`super().__init__(workers=N, use_multiprocessing=True)`.  Keras 3.15 gives its processes no seed: all of them draw the
same random numbers, in every epoch again.  So seed in `__getitem__`, by epoch and index
(`np.random.default_rng((seed, self.epoch, index))`).  Processes are forked: beside TensorFlow that can block for ever,
so do not call TensorFlow in `__getitem__`; and what a batch holds is copied from process to process.
`fitdoctor.optimize(dataset)` keeps processes between epochs and seeds every batch.

## When it is not worth it

When the step does not wait; when a batch waits for a disk or a store more than it computes (threads do for that); when
the loop itself can be written with NumPy (python-loop-preprocessing): that needs no workers at all.

## Example

    super().__init__(workers=4)                              # slow
    super().__init__(workers=4, use_multiprocessing=True)    # fast
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from dataclasses import replace

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.loader import WAITS, Loader
from fitdoctor.facts.rewrites import believed, longer
from fitdoctor.facts.source_datasets import keras_datasets, makes_batches
from fitdoctor.facts.source_loops import calculates, loops_in
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Interval, Site, Trial
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "worker processes"
TRIED = (2, 3, 4, 5, 6, 7, 8)


SUSPICION = "may gain nothing from its workers: they are threads, and their Python takes turns"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find calls that ask for several workers and not for processes."""
    for file in source.files:
        for call in file.calls_with("workers"):
            workers = file.constant(call.keyword("workers"))
            several = isinstance(workers, int) and workers > 1
            if several and call.keyword("use_multiprocessing") is None and (source.ran or _computes(call)):
                yield call.site


def _computes(call: FoundCall) -> bool:
    """Tell whether the workers are those of a class of the file that goes over its items in Python."""
    file = call.file
    own = (each for each in file.inside(call.node) if isinstance(each, ast.ClassDef))
    node = file.classes.get(call.name) or next(own, None)
    return node in keras_datasets(file) and any(
        calculates(file, loop) for function in makes_batches(file, [node]) for loop in loops_in(function)
    )


def measure(training: Training, loader: Loader, trials: Trials, model: StepModel) -> Verdict:
    """Take the rate with processes from the experiment and the gain of the step from the model."""
    if loader.adapter != "PyDataset":
        return Absent(f"the input is {loader.adapter}, which has no worker threads")
    if loader.processes:
        return Clear("its workers are processes")
    if loader.workers <= 1:
        return Absent("it has one worker: idle-workers judges that")
    model.need("input")
    contended = _contended(loader, model)
    if model.share("input").high <= model.noise and not contended:
        return Clear("the step does not wait for input, nor for the GIL")
    found = tried(trials)
    count, (ratio, trial) = min(found.items(), key=lambda each: each[1][0].mid)
    if ratio.high >= 1:
        return Clear(
            f"with {count} processes a batch took {units.percent_range(ratio)} of the time: they are not faster"
        )
    modelled = (_freed if contended else processes)(loader, model, ratio, trial, training.epochs)
    change = rehearsed(trials, model, trial, modelled)
    share = loader.computes
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"each step waits {units.duration(model.parts['input'].mid)} for {loader.workers} worker threads"
                + (f" and, beside them, takes {contended} as on a batch that is there" if contended else "")
                + (f"; a batch is made in Python that computes {units.percent(share)} of its time" if share else "")
                + f"; with {count} processes it took {units.percent_range(ratio)} of the time"
            ),
            change=change,
            evidence={
                "processes": count,
                "own": loader.workers,
                "computes": share,
                "start_s": trial.detail.get("start_s"),
                "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high},
            },
        )
    ]


def _contended(loader: Loader, model: StepModel) -> str:
    """Say how many times as long a step takes beside the threads as alone; empty where that is no longer.

    Threads that hold the GIL keep the training thread from launching its work: that is no wait for input.
    """
    work, share = model.work_alone, loader.computes
    if work is None or share is None or share < WAITS or work.seconds.high <= 0:
        return ""
    rest = model.step.low - model.parts["input"].high - model.parts["callbacks"].high
    return f"{rest / work.seconds.mid:.1f} times as long" if rest > work.seconds.high else ""


def _freed(loader: Loader, model: StepModel, ratio: Interval, trial: Trial, epochs: int) -> Change:
    """Return the change of the whole step: as long as its longer side alone, and as the cores allow."""
    work = model.work_alone
    assert work is not None
    batch = statistics.fmean(trial.baseline_ns) / 1e9
    busy = ((loader.cpu_s or 0.0) + work.seconds.mid * work.cores) / model.cores if model.cores else 0.0
    ends = (
        (work.seconds.low, ratio.low, 0.0),
        (work.seconds.mid, ratio.mid, busy),
        # Two sides that fill the cores may take a tenth longer.
        (work.seconds.high, ratio.high, 1.1 * busy),
    )
    stays = [max(seconds, batch * faster, least) / model.step.mid for seconds, faster, least in ends]
    return Change("step", Interval(*sorted(min(1.0, each) for each in stays)), once=_starts(trial, epochs))


def tried(trials: Trials) -> dict[int, tuple[Interval, Trial]]:
    """Return what was measured with processes, by their number; raises where nothing was."""
    found: dict[int, tuple[Interval, Trial]] = {}
    missing: MissingEvidence | None = None
    for count in TRIED:
        try:
            found[count] = trials.ratio(f"processes={count}", experiment=EXPERIMENT)
        except MissingEvidence as error:
            missing = error
    if not found:
        raise missing or AssertionError
    return found


def processes(loader: Loader, model: StepModel, ratio: Interval, trial: Trial, epochs: int) -> Change:
    """Return the change to worker processes, which Keras starts in every epoch."""
    least = loader.least(model)
    stays = Interval(*(min(1.0, max(each, least)) for each in (ratio.low, ratio.mid, ratio.high)))
    return Change("input", stays, overlap=True, once=_starts(trial, epochs))


def rehearsed(trials: Trials, model: StepModel, trial: Trial, modelled: Change) -> Change:
    """Return what the processes of a trial do to the training, as it was rehearsed: they start in every epoch."""
    change, seen = believed(trials, trial.name, modelled, model), trials.rehearsed(trial.name)
    if seen is None:
        return change
    # Where epochs were seen to begin, what starting them costs was seen then.
    starts = change.once if seen.begins_s is None else Interval.exact(0.0)
    return longer(replace(change, once=Interval.exact(0.0)), starts, model)


def _starts(trial: Trial, epochs: int) -> Interval:
    """Return the seconds that starting processes in every epoch takes; it was timed once: a quarter either way."""
    return Interval(0.75, 1.0, 1.25).scale(float(trial.detail.get("start_s") or 0.0) * max(1, epochs))


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    count = cost.evidence.get("processes", 2)
    title = f"give workers={count}, use_multiprocessing=True to the dataset's constructor, and seed by epoch and index"
    found = [call for call in source.calls() if call.keyword("workers") is not None] if source is not None else []
    call = spots.the_only(found)
    give = (("workers", str(count)), ("use_multiprocessing", "True"))
    sure = source is not None and call is not None and spots.takes(source, call, "use_multiprocessing")
    return Fix(title, "may change", edits=(Arguments(spots.spot(call), give),) if sure and call is not None else ())

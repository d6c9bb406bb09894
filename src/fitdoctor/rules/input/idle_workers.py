"""One worker prepares batches while the step waits.

## What is wrong

A `PyDataset` (or `Sequence`) with one worker makes a batch only when the step asks for it, in the training thread on
JAX and torch; so does a torch `DataLoader` without `num_workers`.  While it reads, the model waits; while the model
computes, nobody reads.  Several workers read ahead.  A plain generator of batches (`fit(batches(), ...)`) is one worker
for ever: nobody but its own code knows what comes next, so that Keras can give it no others.

## How it is established

The step was measured to wait for input, and the lab pulled batches from the user's own dataset with 1, 2, 4 and 8
worker threads (a `DataLoader`: with 2, 4 and 8 processes, once they had started), in turns with the dataset as it is.
Where making a batch computes more than it waits (CPU time of its thread against the clock), a `PyDataset` was tried
with worker processes too, each seeded on its own: what is faster is proposed, threads where they are about as fast.
A generator was tried in processes that were forked with a copy of it each, and the training was run on their batches.
The gain of the step follows from the step model: batches that come beside the step, at the rate that was measured, and
no faster than the cores allow that both share.

## What to do

`PyDataset`: give `workers=N` to the dataset's constructor (`super().__init__(workers=N)`).  Threads help what waits
(disks, stores) and what releases the GIL; Python that computes needs `use_multiprocessing=True`, and then its random
numbers must be seeded per epoch and batch: Keras 3.15 gives its processes no seed, and all draw the same.
`DataLoader`: give it `num_workers=N` and `persistent_workers=True`, or its processes start anew in every epoch.
A generator: write a `PyDataset` whose `__getitem__(i)` makes batch number i, with workers as above.
Batches of one epoch come in the same order; a shuffled `DataLoader` orders later epochs otherwise, and random numbers
drawn in `__getitem__` are drawn by others.

## When it is not worth it

When the step does not wait; when the measured rate does not rise with workers (the GIL, a single disk).

## Example

    class Pictures(keras.utils.PyDataset):
        def __init__(self, files):
            super().__init__()              # slow
            super().__init__(workers=8)     # fast

    DataLoader(pictures, batch_size=32)                                             # slow
    DataLoader(pictures, batch_size=32, num_workers=8, persistent_workers=True)     # fast

    model.fit(batches(), steps_per_epoch=100)                                       # slow: one generator
    model.fit(Batches(workers=4, use_multiprocessing=True))                         # fast: a PyDataset of the same
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import spots
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.loader import Loader
from fitdoctor.facts.rewrites import believed, good_enough
from fitdoctor.facts.source_datasets import keras_datasets, works
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict
from fitdoctor.rules.input import gil_bound_workers

EXPERIMENT = "more workers"
TRIED = (2, 4, 8)
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")


SUSPICION = "may let the step wait for every batch: one worker reads or computes it when it is asked for"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find datasets whose class never speaks of workers, and loaders that are given none."""
    for file in source.files:
        for call in file.calls(*_LOADERS):
            named = any(each.arg in ("num_workers", None) for each in call.node.keywords)
            if not named and (source.ran or _loads(call)):
                yield file.site(call.node, "DataLoader")
        for node in keras_datasets(file) if not any(file.calls_with("workers")) else ():
            if source.ran or works(file, node):
                yield file.site(_constructor(node) or node, node.name)


def _loads(call: FoundCall) -> bool:
    """Tell whether the dataset of a loader is of a class of the file that does more than look into memory."""
    given = call.argument(0, "dataset")
    made = call.file.chain(given) if given is not None else []
    node = call.file.classes.get(made[0].name) if made else None
    return node is not None and works(call.file, node)


def _constructor(node: ast.ClassDef) -> ast.Call | None:
    """Return the call of the base class's constructor, where workers are given."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "super().__init__":
            return each
    return None


def measure(
    training: Training, pipeline: InputPipeline, loader: Loader | None, trials: Trials, model: StepModel
) -> Verdict:
    """Take the rate from the experiment and the gain of the step from the model."""
    if pipeline.adapter == "generator" and loader is not None:
        return _one_generator(training, loader, trials, model)
    if pipeline.adapter not in ("PyDataset", "DataLoader") or loader is None:
        return Absent(f"the input is {pipeline.adapter}, which has no workers")
    model.need("input")
    wait = model.parts["input"]
    if model.share("input").high <= model.noise:
        return Clear("the step does not wait for input")
    torchs = pipeline.adapter == "DataLoader"
    own = loader.workers if torchs else max(1, loader.workers)
    found = _tried(trials)
    ways = [
        _Way(count, torchs, ratio, believed(trials, f"workers={count}", _change(loader, model, ratio, start_s), model))
        for count, (ratio, start_s) in found.items()
        if count > own and ratio.high < 1
    ]
    if not torchs and own == 1:
        ways += _processes(training, loader, trials, model)
    if not ways:
        rates = ", ".join(f"{count}: {units.percent(ratio.mid)}" for count, (ratio, _) in found.items())
        return Clear(f"more workers than {own} do not bring batches faster (time per batch with {rates})")
    savings = [model.with_change(way.change).saving() for way in ways]
    best = max(saving.mid for saving in savings)
    saving, way = next(each for each in zip(savings, ways, strict=True) if good_enough(each[0].mid, best))
    kind = "processes" if way.processes and not torchs else "workers"
    computes = loader.computes
    return [
        Cost(
            saving=saving,
            because=(
                f"each step waits {units.duration(wait.mid)} for {own or 'no'} worker{'s' if own != 1 else ''}; "
                f"with {way.count} {kind} a batch took {units.percent_range(way.ratio)} of the time, beside the step"
                + (f" (making it computes {units.percent(computes)} of its time)" if computes is not None else "")
            ),
            change=way.change,
            evidence={
                "workers": way.count,
                "own": own,
                "loader": torchs,
                "processes": way.processes,
                "computes": computes,
                "ratios": {str(n): {"low": r.low, "mid": r.mid, "high": r.high} for n, (r, _) in found.items()},
            },
        )
    ]


def _one_generator(training: Training, loader: Loader, trials: Trials, model: StepModel) -> Verdict:
    """Judge a plain generator of batches, which takes no workers: the lab forked processes with a copy of it each."""
    model.need("input")
    if model.share("input").high <= model.noise:
        return Clear("the step does not wait for input")
    tried = gil_bound_workers.tried(trials)
    ways = _processes(training, loader, trials, model)
    if not ways:
        rates = ", ".join(f"{count}: {units.percent(ratio.mid)}" for count, (ratio, _) in tried.items())
        return Clear(f"several processes do not bring batches faster than one generator (time per batch with {rates})")
    saving, way = max(((model.with_change(each.change).saving(), each) for each in ways), key=lambda pair: pair[0].mid)
    made = tried[way.count][1].detail
    computes = loader.computes
    return [
        Cost(
            saving=saving,
            because=(
                f"each step waits {units.duration(model.parts['input'].mid)} for a generator that makes one batch "
                f"after the other; with {way.count} processes a batch took {units.percent_range(way.ratio)} of the time"
                + (f" (making it computes {units.percent(computes)} of its time)" if computes is not None else "")
            ),
            site=Site(str(made["path"]), int(made["line"]), symbol=made.get("symbol")) if made.get("path") else None,
            change=way.change,
            evidence={
                "workers": way.count,
                "own": 1,
                "generator": True,
                "processes": True,
                "computes": computes,
                "ratios": {str(n): {"low": r.low, "mid": r.mid, "high": r.high} for n, (r, _) in tried.items()},
            },
        )
    ]


@dataclass(frozen=True, slots=True)
class _Way:
    count: int
    processes: bool
    ratio: Interval
    change: Change


def _tried(trials: Trials) -> dict[int, tuple[Interval, float]]:
    found: dict[int, tuple[Interval, float]] = {}
    missing: MissingEvidence | None = None
    for count in TRIED:
        try:
            ratio, trial = trials.ratio(f"workers={count}", experiment=EXPERIMENT)
            found[count] = ratio, float(trial.detail.get("start_s") or 0.0)
        except MissingEvidence as error:
            missing = error
    if not found:
        raise missing or AssertionError
    return found


def _change(loader: Loader, model: StepModel, ratio: Interval, start_s: float) -> Change:
    least = loader.least(model)
    stays = Interval(*(min(1.0, max(each, least)) for each in (ratio.low, ratio.mid, ratio.high)))
    # Processes that are kept start once; it was timed a few times: a quarter either way.
    return Change("input", stays, overlap=True, once=Interval(0.75, 1.0, 1.25).scale(start_s))


def _processes(training: Training, loader: Loader, trials: Trials, model: StepModel) -> list[_Way]:
    """Return the ways with processes; none where a batch waits, or where they could not be tried."""
    try:
        found = gil_bound_workers.tried(trials)
    except MissingEvidence:
        return []
    return [
        _Way(
            count,
            True,
            ratio,
            gil_bound_workers.rehearsed(
                trials, model, trial, gil_bound_workers.processes(loader, model, ratio, trial, training.epochs)
            ),
        )
        for count, (ratio, trial) in found.items()
        if ratio.high < 1
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    count = str(cost.evidence.get("workers", 4))
    if cost.evidence.get("generator"):
        dataset = "make it a keras.utils.PyDataset that makes batch number i"
        return Fix(f"{dataset}, and give workers={count}, use_multiprocessing=True to its constructor", "may change")
    if cost.evidence.get("loader"):
        title = f"give num_workers={count}, persistent_workers=True to the DataLoader"
        loader = spots.the_only(source.calls(*_LOADERS)) if source is not None else None
        return Fix(title, "may change", edits=_edits(loader, num_workers=count, persistent_workers="True"))
    made = _made(source) if source is not None else None
    if cost.evidence.get("processes"):
        title = (
            f"give workers={count}, use_multiprocessing=True to the dataset's constructor, and seed by epoch and index"
        )
        return Fix(title, "may change", edits=_edits(made, workers=count, use_multiprocessing="True"))
    return Fix(f"give workers={count} to the dataset's constructor", "may change", edits=_edits(made, workers=count))


def _edits(call: FoundCall | None, **give: str) -> tuple[Arguments, ...]:
    return (Arguments(spots.spot(call), tuple(give.items()), order=spots.LOADER),) if call is not None else ()


def _made(source: SourceTree) -> FoundCall | None:
    """Return the one call that can give a dataset its workers: of its base class's constructor, else of its own."""
    found = [(file, node) for file in source.files for node in keras_datasets(file)]
    if len(found) != 1:
        return None
    file, node = found[0]
    base = _constructor(node)
    own = any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in node.body)
    if base is not None and not any(each.arg is None for each in base.keywords):
        return FoundCall(file, base, ".__init__")
    # Workers pass through a constructor that hands everything on, and through the one of the base class.
    made = spots.the_only(source.calls(node.name)) if base is not None or not own else None
    return made if made is not None and spots.takes(source, made, "workers", "use_multiprocessing") else None

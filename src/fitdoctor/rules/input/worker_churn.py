"""Workers are ended and started anew in every epoch.

## What is wrong

A torch `DataLoader` with `num_workers` and without `persistent_workers` starts its processes for every epoch, and Keras
asks for two iterators between epochs, so they are started twice.  Keras's own pool for a `PyDataset` with several
workers is stopped and started between epochs too, and stopping it waits a tenth of a second for a queue that is empty.
With short epochs that is a visible share of the training.

## How it is established

The lab went from one epoch to the next as Keras does, in turns: with the workers as they are, and with workers that
stay (a `PyDataset`: the next batch of the same epoch, which is what a longer epoch has in this place).  What that takes
longer is the cost, as far as the time between epochs of the very run holds it.

Measured with Keras 3.15 and torch 2.13 on two cores, from one epoch to the next on a tiny dataset: a `PyDataset` with
one worker 0.3 ms, with two threads 103 ms; a `DataLoader` with two processes 52 to 99 ms on JAX and 164 to 279 ms on
torch, with processes that stay 10 to 33 ms.

## What to do

`DataLoader`: `persistent_workers=True`.  The same batches in the same order, but torch then draws one random number
less per epoch from its global generator: a shuffled loader orders later epochs otherwise, and on the torch backend a
`Dropout` without a seed drops other units, since Keras takes it from the same generator (seen: other losses, the same
every time).  Workers that draw random numbers themselves go on with them instead of being seeded anew.  `PyDataset`:
longer epochs (a dataset whose `num_batches` is None and `steps_per_epoch=…`: as many steps in a tenth of the epochs),
or one worker where one keeps up.

## When it is not worth it

With long epochs; with one epoch.

## Example

    DataLoader(data, batch_size=32, num_workers=4)                              # slow
    DataLoader(data, batch_size=32, num_workers=4, persistent_workers=True)     # fast
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.facts import spots
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.loader import Loader
from fitdoctor.facts.rewrites import believed
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "workers kept between epochs"
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_DRAWING = ("Dropout", "Noise", "Random")
"""In the names of layers that draw random numbers."""
_ITEMS = ("__getitem__", "__getitems__", "__iter__")
_RANDOM = ("rand", "rng", "choice", "shuffle")
"""In the names of what draws them."""


SUSPICION = "may start all worker processes anew in every epoch"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find loaders with processes that are not kept."""
    for file in source.files:
        for call in file.calls(*_LOADERS):
            workers = call.keyword("num_workers")
            none = workers is None or (isinstance(workers, ast.Constant) and not workers.value)
            spread = any(each.arg is None for each in call.node.keywords)
            if none or spread or call.keyword("persistent_workers") is not None:
                continue
            if source.ran or not _used_once(call):
                yield call.site


def _used_once(call: FoundCall) -> bool:
    """Tell whether a loader is gone through once only, in a loop of its own that nothing repeats."""
    around = call.file.parents.get(call.node)
    target = around.targets[0] if isinstance(around, ast.Assign) else None
    here = call.file.scope(call.node)
    name = target.id if isinstance(target, ast.Name) else None
    uses = [each for each in call.file.nodes(ast.Name) if each.id == name and isinstance(each.ctx, ast.Load)]
    loops = [call.file.parents.get(each) for each in uses if call.file.scope(each) is here]
    return len(loops) == 1 and isinstance(loops[0], ast.For) and not call.file.repeats(loops[0])


def place(source: SourceTree) -> Iterator[Site]:
    """Find where a dataset is given its workers."""
    for call in source.calls():
        if call.keyword("workers") is not None:
            yield call.site


def measure(
    training: Training, pipeline: InputPipeline, loader: Loader | None, trials: Trials, model: StepModel
) -> Verdict:
    """Compare the way from epoch to epoch with and without workers that stay."""
    if pipeline.adapter not in ("PyDataset", "DataLoader") or loader is None:
        return Absent(f"the input is {pipeline.adapter}, which has no workers")
    torchs = pipeline.adapter == "DataLoader"
    if loader.workers <= (0 if torchs or loader.processes else 1):
        return Absent("no workers are started")
    if training.info.get("persistent_workers"):
        return Clear("the loader keeps its workers")
    if training.epochs < 2:
        return Absent("there is one epoch")
    ratio, trial = trials.ratio("workers kept", experiment=EXPERIMENT)
    anew, kept = (statistics.fmean(each) / 1e9 for each in (trial.baseline_ns, trial.changed_ns))
    between = model.elsewhere.get("between epochs", 0.0) / training.epochs
    if ratio.mid >= 1 or between <= 0:
        return Clear(f"from one epoch to the next it takes {units.duration(anew)}, no longer than with workers kept")
    change = believed(trials, trial.name, _change(anew, ratio, between, training, torchs), model)
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"from one epoch to the next {loader.workers} workers are ended and started: that took "
                f"{units.duration(anew)}, with workers that stay {units.duration(kept)}; the run spent "
                f"{units.duration(between)} between each of {training.epochs} epochs"
            ),
            change=change,
            evidence={
                "loader": torchs,
                "shuffled": training.info.get("shuffled"),
                "draws": _model_draws(training),
                "anew_ms": anew * 1e3,
                "kept_ms": kept * 1e3,
                "between_ms": between * 1e3,
                "stop_ms": loader.stop_s * 1e3 if loader.stop_s is not None else None,
                "start_ms": loader.start_s * 1e3 if loader.start_s is not None else None,
            },
        )
    ]


def _model_draws(training: Training) -> bool:
    """Tell whether the model may draw from the generator that the loader draws from."""
    kinds = (training.info.get("layers") or {}).get("kinds")
    return training.backend == "torch" and (kinds is None or any(word in kind for kind in kinds for word in _DRAWING))


def _change(anew: float, ratio: Interval, between: float, training: Training, torchs: bool) -> Change:
    """Return what becomes of the time between epochs.

    A loader starts its workers once.  Longer epochs: at worst twice as long, at best one, in the middle four times.
    """
    once = 1 / training.epochs
    stays = (once, once, once) if torchs else (once, max(once, 0.25), max(once, 0.5))
    # What the lab saw beyond the run's own time between epochs is the wait for the first batch, which stays out.
    held = min(1.0, anew / between)
    ends = ((ratio.low, stays[0]), (ratio.mid, stays[1]), (ratio.high, stays[2]))
    return Change(
        "between epochs", Interval(*(1 - held * (1 - each) * (1 - still) for each, still in ends)).clip(0.0, 1.0)
    )


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    if not cost.evidence.get("loader"):
        return Fix("make epochs longer: an endless dataset with steps_per_epoch, and fewer epochs", "same")
    drawn = cost.evidence.get("shuffled") is not False or cost.evidence.get("draws") is not False
    call = spots.the_only(source.calls(*_LOADERS)) if source is not None else None
    edits = (Arguments(spots.spot(call), (("persistent_workers", "True"),)),) if call is not None else ()
    title = "give persistent_workers=True to the DataLoader"
    return Fix(title, "same" if not drawn and source is not None and _plain(source) else "may change", edits=edits)


def _plain(source: SourceTree) -> bool:
    """Tell whether the datasets of the script are there to be read, and draw no random numbers in its workers."""
    bodies = [
        (file, each)
        for file in source.files
        for each in file.nodes(ast.ClassDef)
        if any(isinstance(part, ast.FunctionDef) and part.name in _ITEMS for part in each.body)
    ]
    names = [
        file.resolve(node).lower()
        for file, each in bodies
        for node in ast.walk(each)
        if isinstance(node, (ast.Attribute, ast.Name))
    ]
    return bool(bodies) and not any(word in name for name in names for word in _RANDOM)

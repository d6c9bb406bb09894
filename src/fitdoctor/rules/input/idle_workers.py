"""One worker prepares batches while the step waits.

## What is wrong

A `PyDataset` (or `Sequence`) with one worker makes a batch only when the step asks for it, in the training thread on
JAX and torch; so does a torch `DataLoader` without `num_workers`.  While it reads, the model waits; while the model
computes, nobody reads.  Several workers read ahead.

## How it is established

The step was measured to wait for input, and the lab pulled batches from the user's own dataset with 1, 2, 4 and 8
worker threads (a `DataLoader`: with 2, 4 and 8 processes, once they had started), in turns with the dataset as it is.
The gain of the step follows from the step model: batches that come beside the step, at the rate that was measured.

## What to do

`PyDataset`: give `workers=N` to the dataset's constructor (`super().__init__(workers=N)`).  Threads help what waits
(disks, stores) and what releases the GIL; Python that computes needs `use_multiprocessing=True`, and then its random
numbers must be seeded per worker.  `DataLoader`: give it `num_workers=N` and `persistent_workers=True`, or its
processes start anew in every epoch.  Batches come in the same order; random numbers drawn in `__getitem__` are drawn
by others.

## When it is not worth it

When the step does not wait; when the measured rate does not rise with workers (the GIL, a single disk).

## Example

    class Pictures(keras.utils.PyDataset):
        def __init__(self, files):
            super().__init__()              # slow
            super().__init__(workers=8)     # fast

    DataLoader(pictures, batch_size=32)                                             # slow
    DataLoader(pictures, batch_size=32, num_workers=8, persistent_workers=True)     # fast
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Change, Cost, Fix, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "more workers"
TRIED = (2, 4, 8)
_BASES = ("keras.utils.PyDataset", "keras.utils.Sequence", "tensorflow.keras.utils.Sequence")
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")


def locate(source: SourceTree) -> Iterator[Site]:
    """Find datasets whose class never speaks of workers, and loaders that are given none."""
    for file in source.files:
        for node in ast.walk(file.tree):
            if (
                isinstance(node, ast.Call)
                and file.resolve(node.func) in _LOADERS
                and not any(each.arg in ("num_workers", None) for each in node.keywords)
            ):
                yield file.site(node, "DataLoader")
            if isinstance(node, ast.ClassDef) and any(file.resolve(base) in _BASES for base in node.bases):
                named = any(isinstance(each, ast.keyword) and each.arg == "workers" for each in ast.walk(file.tree))
                if not named:
                    yield file.site(node, node.name)


def measure(training: Training, pipeline: InputPipeline, trials: Trials, model: StepModel) -> Verdict:
    """Take the rate from the experiment and the gain of the step from the model."""
    if pipeline.adapter not in ("PyDataset", "DataLoader"):
        return Absent(f"the input is {pipeline.adapter}, which has no workers")
    model.need("input")
    wait = model.parts["input"]
    if model.share("input").high <= model.noise:
        return Clear("the step does not wait for input")
    loader = pipeline.adapter == "DataLoader"
    own = int(training.info.get("workers") or 0) if loader else max(1, int(training.info.get("workers") or 1))
    found: dict[int, Interval] = {}
    starts: dict[int, float] = {}
    missing: MissingEvidence | None = None
    for count in TRIED:
        try:
            found[count], trial = trials.ratio(f"workers={count}", experiment=EXPERIMENT)
            starts[count] = float(trial.detail.get("start_s") or 0.0)
        except MissingEvidence as error:
            missing = error
    if not found:
        raise missing or AssertionError
    costs = []
    for count, ratio in found.items():
        if count > own and ratio.high < 1:
            # Processes that are kept start once; it was timed a few times: a quarter either way.
            once = Interval(0.75, 1.0, 1.25).scale(starts[count])
            change = Change("input", ratio.clip(0.0, 1.0), overlap=True, once=once)
            costs.append((model.with_change(change).saving(), count, ratio, change))
    if not costs:
        rates = ", ".join(f"{count}: {units.percent(ratio.mid)}" for count, ratio in found.items())
        return Clear(f"more workers than {own} do not bring batches faster (time per batch with {rates})")
    best = max(saving.mid for saving, *_ in costs)
    saving, count, ratio, change = next(each for each in costs if each[0].mid >= 0.95 * best)
    return [
        Cost(
            saving=saving,
            because=(
                f"each step waits {units.duration(wait.mid)} for {own or 'no'} worker{'s' if own != 1 else ''}; "
                f"with {count} workers a batch took {units.percent_range(ratio)} of the time, and beside the step"
            ),
            change=change,
            evidence={
                "workers": count,
                "own": own,
                "loader": loader,
                "ratios": {str(n): {"low": r.low, "mid": r.mid, "high": r.high} for n, r in found.items()},
            },
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    count = cost.evidence.get("workers", 4)
    if cost.evidence.get("loader"):
        return Fix(f"give num_workers={count}, persistent_workers=True to the DataLoader", "may change")
    return Fix(f"give workers={count} to the dataset's constructor", "may change")

"""Another Keras backend trains this very model faster.

## What is wrong

The same Keras code runs on TensorFlow, JAX and PyTorch, and they differ by far more than most tuning gains: on two
cores an epoch of a small dense net took 0.3 s on JAX, 1.4 s on TensorFlow and 9 s on PyTorch.  Which is fastest depends
on the model, the batch and the machine; there is no rule of thumb.

## How it is established

Only by running the very script on the other installed backends (`fitdoctor run --backends`): each in a process of its
own, in turns, twice, watched for the same number of steps.  What a step takes there over what it takes here is the
gain; what importing and compiling take longer counts against it.  The losses that both had reached are told: weights
are drawn from other random numbers there, so they agree roughly, not bit for bit.

A script that sets `KERAS_BACKEND` itself, or whose model or loop is written with one framework's own operations, cannot
be compared so.

## What to do

Set `KERAS_BACKEND` in the environment, or in the script before Keras is imported.  Write layers with `keras.ops`.  A
`tf.data` pipeline can stay: every backend trains on it.  Compare the curves of a whole training before you switch.

## When it is not worth it

When the step waits for its input; when the training takes minutes and the other framework has to be installed.

## Example

    python train.py                         # TensorFlow
    KERAS_BACKEND=jax python train.py       # the same, where it is faster
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.backends import Backends, Elsewhere
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

VARIABLE = "KERAS_BACKEND"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: no backend is slow by itself."""
    del source
    return iter(())


def place(source: SourceTree) -> Iterator[Site]:
    """Find where the script names its backend, else where Keras is imported."""
    for file in source.files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Constant) and node.value == VARIABLE:
                yield file.site(node)
    for file in source.files:
        for node in ast.walk(file.tree):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if any(name.split(".")[0] == "keras" for name in (*names, module)):
                yield file.site(node)


def measure(training: Training, backends: Backends, model: StepModel) -> Verdict:
    """Take the gain from the runs on the other backends."""
    if training.kind != "fit":
        return Absent(f"a {training.kind} is written for {training.backend}")
    if not backends.others:
        return Absent(f"no other Keras backend than {training.backend} is installed")
    told = [each for each in backends.others if each.ratio is not None]
    if not told:
        why = "; ".join(f"{each.backend}: {each.why}" for each in backends.others)
        raise MissingEvidence(Gap("the other backends", why, "write the model with keras.ops, and let the "
                                  "environment choose the backend"))  # fmt: skip
    best = min(told, key=_middle)
    ratio = best.ratio
    assert ratio is not None
    if ratio.mid >= 1:
        return Clear(f"no other backend was faster: {', '.join(map(_said, told))}")
    change = Change("step", ratio.clip(0.0, 1.0), once=Interval.exact(max(0.0, best.once_s)))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"the same script was run on {', '.join(each.backend for each in told)} too: on {best.backend} a step "
                f"took {units.percent_range(ratio)} of the time; {_learnt(best, backends.own)}"
            ),
            change=change,
            evidence={
                "own": backends.own,
                "backend": best.backend,
                "ratios": {each.backend: asdict_of(each.ratio) for each in told},
                "losses": list(best.losses) if best.losses else None,
                "not_compared": {each.backend: each.why for each in backends.others if each.ratio is None},
            },
        )
    ]


def _middle(other: Elsewhere) -> float:
    return other.ratio.mid if other.ratio is not None else float("inf")


def asdict_of(ratio: Interval | None) -> dict[str, float] | None:
    """Return an interval as plain data."""
    return None if ratio is None else {"low": ratio.low, "mid": ratio.mid, "high": ratio.high}


def _said(other: Elsewhere) -> str:
    return f"{other.backend} took {units.percent_range(other.ratio)} of the time" if other.ratio else other.backend


def _learnt(other: Elsewhere, own: str) -> str:
    if other.losses is None:
        return "their losses were not compared"
    here, there = other.losses
    return f"after as many steps the loss was {there:.4g} there and {here:.4g} on {own}"


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    name = cost.evidence["backend"]
    return Fix(f"{VARIABLE}={name} in the environment, or os.environ before keras is imported", "may change")

"""XLA compiles the step again for every new shape.

## What is wrong

XLA compiles for fixed shapes.  On JAX, and on TensorFlow with `jit_compile=True`, a batch whose sequences are one token
longer than any before is a new program: traced, lowered and compiled while the training waits.  With
`torch.compile` the same lines are compiled again when torch's guess which sides vary does not hold.

## How it is established

JAX and torch report every compilation; each is timed with the line that called and, on JAX, the argument whose shape
was new.  What comes after the first steps, more than a few times, counts.  How often it will happen until the end is
projected from how often it did in the first and in the second half of what was watched, and from how many lengths there
can be; the low end takes it that all were seen.  TensorFlow does not report what XLA compiles inside of it: where
batches may change their shape this stays unknown there.

## What to do

Pad to a few lengths (buckets), so that a few programs serve for all batches, or to one.  Padding costs compute, half a
bucket per batch on average, and each bucket a compilation: the saving takes both into account, for the number of
buckets at which they cost least.  Or turn XLA off for this model on TensorFlow: `jit_compile=False`.  With a mask the
results are the same within tolerance.

## When it is not worth it

When only the last batch of an epoch is smaller: that is one program more, compiled once.

## Example

    x = pad_sequences(texts)                                    # slow: every batch has a length of its own
    x = pad_sequences(texts, maxlen=-(-longest // 64) * 64)     # fast: a few lengths
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.again import Again
from fitdoctor.facts.compile_log import CompileLog
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict
from fitdoctor.rules.compiled_again import cost_of, told


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: which shapes come no source tells."""
    del source
    return iter(())


def measure(training: Training, log: CompileLog, model: StepModel) -> Verdict:
    """Project what compiling for new shapes takes to the whole training."""
    if training.backend == "tensorflow":
        return _tensorflow(training, log)
    if training.backend == "jax" and training.info.get("run_eagerly"):
        return Absent("the step runs op by op: eager-step judges that")
    mine = [each for each in training.again if each.cause in ("shape", "dtype")]
    if not mine:
        return Clear("after the first steps no function was compiled again and again for other shapes")
    return [cost_of(each, training, model, f"compiled for {told(each)}", _padding(each, model)) for each in mine]


def _tensorflow(training: Training, log: CompileLog) -> Verdict:
    if not training.info.get("jit_compile"):
        return Absent("XLA does not compile the step; retracing judges what TensorFlow traces")
    if not any(each.detail.get("varies") for each in log.entries if each.call in training.call_ids):
        return Clear("batches have one shape but for the number of samples: XLA compiles the step once or twice")
    raise MissingEvidence(
        Gap(
            "compilations by XLA",
            "batches may change their shape, and TensorFlow does not tell when XLA compiles",
            "compare with jit_compile=False, or pad to a few lengths",
        )
    )


def _padding(again: Again, model: StepModel) -> Interval | None:
    """Seconds that padding to the best number of lengths would cost: half a bucket per batch, at worst a whole one."""
    lengths = again.numbers
    if len(lengths) < 2 or min(lengths) <= 0 or again.each_s <= 0:
        return None
    computing = model.parts["compute"].mid * model.planned_steps
    with_one = computing * (max(lengths) - min(lengths)) / 2 / (sum(lengths) / len(lengths))
    # More lengths, less padding and more programs to compile.
    buckets = min(max(1.0, math.sqrt(with_one / again.each_s)), float(again.count))
    # One of the programs is the first, which is compiled in any case.
    padding, compiling = with_one / buckets, (buckets - 1) * again.each_s
    return Interval(compiling, padding + compiling, 2 * padding + compiling)


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del source
    argument = cost.evidence.get("argument")
    what = f"pad {argument} to a few lengths" if argument else "pad batches to a few shapes"
    return Fix(f"{what}, so that a few programs serve for all", "same")

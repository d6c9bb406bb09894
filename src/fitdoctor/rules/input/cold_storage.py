"""The first epoch waits for a cold disk.

## What is wrong

The first time a file is read it comes from the disk (or over the network); afterwards the system has it in memory and
hands it out at once.  A first epoch that takes several times as long as the second is the usual sign.

## How it is established

Steps of the first epoch are compared with those of later ones (the second half of each: by then buffers and thread
pools have settled), and so are the bytes that really came from a disk, as the system counts them for this process.
Only if the first epoch is slower *and* read from the disk what later ones did not is it this, and on JAX and torch,
where waiting for a batch is seen in Python, only if most of what it is slower is such waiting.  What it costs is
weighed against the whole training: one slow epoch among a hundred is little.

The saving is a range: at its high end the files are there before the training begins (a local disk that keeps them
between runs), at its low end half of the difference stays, because somebody has to read everything once.

## What to do

Read the files once before the training, many at a time (`cat`, `vmtouch -t`, or a thread pool), while the model is
being built; copy them to a local disk; or turn them into a few large files, which disks read faster (small-files).

## When it is not worth it

With many epochs; when the data does not fit into memory, since then every epoch is cold.

## Example

    model.fit(data, epochs=3)                                   # slow, if the files were not read for long

    $ find pictures -type f -print0 | xargs -0 -P 16 -n 64 cat > /dev/null
    model.fit(data, epochs=3)                                   # fast
"""

from __future__ import annotations

from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.epoch_reads import EpochReads
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import SMALLEST_PROVABLE, StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Change, Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

PAGE = 4096
"""Bytes per step from the disk, less than which is nothing."""


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: whether a file is in memory does not stand in the source."""
    del source
    return iter(())


def measure(training: Training, reads: EpochReads | None, model: StepModel) -> Verdict:
    """Compare the first epoch with the later ones."""
    if training.epochs < 2 or not training.steps_per_epoch:
        return Absent("there is one epoch: whatever is read is read for the first time")
    if training.backend == "tensorflow" and training.info.get("adapter") == "arrays":
        return Absent("its arrays are copied into memory before the first step")
    if "input" not in model.gaps and model.share("input").high <= model.noise:
        return Clear("the step does not wait for input")
    if reads is None:
        if training.info.get("adapter") == "arrays":
            return Absent("its arrays lie in memory")
        raise MissingEvidence(
            Gap(
                "what the first epoch read from the disk",
                "too few of its steps, or of the host's samples beside them, were seen",
                "let it run longer (--steps and --budget), where /proc can be read",
            )
        )
    first, later = reads.first, reads.later
    if first.disk_step < PAGE:
        return Clear("what it reads in the first epoch comes from memory")
    if later is None:
        raise MissingEvidence(
            Gap(
                "a second epoch",
                f"only the first was watched, and {units.size(first.disk_step)} per step came from the disk",
                "let it run to its end: --whole",
            )
        )
    if later.disk_step > first.disk_step / 2:
        return Clear("later epochs read from the disk too: the data does not stay in memory")
    low, high = first.step.low - later.step.high, first.step.high - later.step.low
    mid = first.step.mid - later.step.mid
    if low <= 0:
        return Clear("the first epoch is no slower than later ones, though it reads from the disk")
    if training.backend != "tensorflow" and first.fetch.mid - later.fetch.mid < mid / 2:
        return Clear("the first epoch does not wait longer for its input than later ones")
    seconds = [training.steps_per_epoch * each for each in (low / 2, 0.75 * mid, high)]
    steps = model.planned_steps * model.step.mid
    change = Change("step", Interval.around(max(0.0, 1 - each / steps) for each in seconds))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"a step of the first epoch takes {units.duration(first.step.mid)} and reads "
                f"{units.size(first.disk_step)} from the disk, a later one {units.duration(later.step.mid)} and "
                f"{units.size(later.disk_step)}; there are {training.epochs} epochs"
            ),
            site=training.site,
            change=change,
            evidence={
                "first_step_ms": first.step.mid * 1e3,
                "later_step_ms": later.step.mid * 1e3,
                "first_disk_bytes": first.disk_step,
                "later_disk_bytes": later.disk_step,
            },
            # Steps that differ from epoch to epoch make the run as a whole look noisy; each epoch is not.
            noise=SMALLEST_PROVABLE,
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name what to do."""
    del cost, source
    return Fix("read the files once before the training, many at a time, or keep them on a local disk", "same")

"""Batches cut to the lengths that sequences of like length would give, where batches are padded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BARE, Job
from fitdoctor.lab.sequences import Padded, bounds, buckets, cut, padded, real_lengths

NAME = "batches of like lengths"
BATCHES = 32
SECONDS = 2.0
_ARRAYS = "arrays"


def worth(seen: Seen) -> float:
    """Weigh pipelines that pad; of others only those whose first input could be tokens."""
    if any(each.get("op") == "PaddedBatch" or each.get("pads") for each in seen.info.get("dataset") or ()):
        return 1.0
    if seen.info.get("adapter") == _ARRAYS:
        return 0.3 if any(_tokens(each) for each in (seen.info.get("arrays") or ())[:1]) else 0.0
    return 0.1 if seen.info.get("adapter") in ("PyDataset", "generator", "DataLoader") else 0.0


def _tokens(array: dict[str, Any]) -> bool:
    return len(array.get("shape") or ()) == 2 and str(array.get("dtype")).startswith(("int", "uint"))


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Train on the kept batch cut to two lengths, the shorter and the longer half of what buckets would give."""
    from keras import tree

    first = padded(tree.flatten(_inputs(job.batch)))
    if first is None:
        raise CannotRun("no part of a batch is padded")
    lengths, sizes = _counted(job, first)
    wanted = buckets(lengths, job.batch_rows)
    detail: dict[str, Any] = {
        "real": int(lengths.sum()), "padded": int(sum(sizes)), "mean_length": float(lengths.mean()),
        "batch_length": float(sum(sizes) / max(1, lengths.size)), "sequences": int(lengths.size), "front": first.front,
        "bounds": bounds(lengths), "alone": not isinstance(_inputs(job.batch), (dict, list, tuple)),
    }  # fmt: skip
    _accepts(job.model, first)
    base = _cut_job(job, seen, first, round(detail["batch_length"]))
    half = max(1, wanted.size // 2)
    for name, part in (("shorter", wanted[:half]), ("longer", wanted[half:] if wanted.size > 1 else wanted)):
        length = min(round(float(part.mean())), first.length)
        other = _cut_job(job, seen, first, length)
        yield Comparison(
            f"{name} batches",
            lambda other=other: other.block(BARE),  # type: ignore[misc]
            lambda: base.block(BARE),
            {**detail, "length": length},
        )


def _inputs(batch: Any) -> Any:
    return batch[0] if isinstance(batch, (tuple, list)) else batch


def _counted(job: Job, found: Padded) -> tuple[Any, list[int]]:
    """Return the real lengths of some sequences and, for each of them, how long it is padded to."""
    import numpy as np
    from keras import ops, tree

    lengths: list[Any] = []
    sizes: list[int] = []
    start = time.monotonic()
    for batch, _ in zip(job.loader(), range(BATCHES), strict=False):
        rows = ops.convert_to_numpy(tree.flatten(_inputs(batch))[found.leaf])
        lengths.append(real_lengths(rows, found))
        sizes.extend([int(rows.shape[1])] * int(rows.shape[0]))
        if time.monotonic() - start > SECONDS:
            break
    return np.concatenate(lengths), sizes


def _accepts(model: Any, found: Padded) -> None:
    """Refuse models that say how long their sequences are."""
    inputs = getattr(model, "inputs", None) or ()
    fixed = [each.shape[1] for each in inputs if len(each.shape) > 1 and each.shape[1] == found.length]
    if fixed:
        raise CannotRun(
            f"the model takes sequences of exactly {found.length} positions",
            do="give its input no length, keras.Input((None,)), then run it again",
        )


def _cut_job(job: Job, seen: Seen, found: Padded, length: int) -> Job:
    """Return the same training on the kept batch, cut."""
    from keras import tree

    batch = job.batch
    if length < found.length:
        batch = tree.pack_sequence_as(batch, cut(tree.flatten(batch), length, found))
    other = Job(job.model, job.backend, (), {}, step_ns=seen.step_ns)
    other.keep(batch)
    return other

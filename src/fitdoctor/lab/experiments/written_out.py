"""Batches that were written down beforehand, in turns with the pipeline that makes them: what is left is reading them.

They lie in one record file that has lost its name already: nothing is left behind.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import FELT, Comparison, Seen
from fitdoctor.lab.experiments.rewritten import WORK
from fitdoctor.lab.job import Job, Offer
from fitdoctor.lab.rehearsal import batches
from fitdoctor.probes.cgroup import usable_cores
from fitdoctor.rewrites import purity
from fitdoctor.rewrites.pulling import LEAD_SECONDS, Puller, pace

NAME = "batches written beforehand"
TRIAL = "written beforehand"
TRAINS = False
OFFERS = True
RANK = 7.9
"""Right behind the others that offer data, which could change more: the training is rehearsed on all of it then."""
BUSY = 0.7
"""Batches that keep a smaller share of the cores busy could be made faster here: that is tried by others."""
SECONDS = 1.0
FEWEST, MOST = 2, 512
MOST_BYTES = 128 << 20


def worth(seen: Seen) -> float:
    """Weigh the wait for a pipeline that does something to its elements."""
    works = any(each.get("op") in WORK for each in seen.info.get("dataset") or ())
    waits = seen.shares["fetch"] if seen.info.get("adapter") == "tf.data" and works else 0.0
    return waits if waits > FELT else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Pull batches from the record file and from the pipeline as it is."""
    del seen
    dataset: Any = job.given.get("x")
    if (name := purity.unwritten_cache(dataset)) is not None:
        raise CannotRun(f"the cache file {name} is not complete", do="let one epoch run to its end first")
    as_is = Puller(job.passes())
    as_is.block()  # TensorFlow finds out how much to do at once
    busy, cores = pace(as_is.block).cores, usable_cores()
    if busy < BUSY * cores:
        raise CannotRun(f"making batches keeps {busy:.1f} of {cores:g} cores busy: the others could help")
    record, count = _written(dataset)
    read = _read(record, dataset.element_spec)

    def given(whole: bool) -> dict[str, Any]:
        assert not record.closed
        ends = whole and not job.given.get("steps_per_epoch")
        return {"x": read.take(batches(job)) if ends else read}

    job.offers.append(Offer(TRIAL, "exhausted-host", given, last=True))
    changed = Puller(job.passes(given(False)["x"]))
    detail = {"unit": "ns per batch", "batches": count, "bytes": os.fstat(record.fileno()).st_size}
    yield Comparison(TRIAL, lambda: changed.block(lead=LEAD_SECONDS), lambda: as_is.block(lead=LEAD_SECONDS), detail)


def _written(dataset: Any) -> tuple[Any, int]:
    """Write as many batches as there is time for, a record for each of their tensors; return the file and how many."""
    if not Path("/proc/self/fd").is_dir():
        raise CannotRun("this system has no /proc to read an unnamed file through", do="try it on Linux")
    tf = sys.modules["tensorflow"]
    if not all(type(spec) is tf.TensorSpec for spec in tf.nest.flatten(dataset.element_spec)):
        raise CannotRun("its batches are ragged or sparse", do="try it in the script: data.save(folder)")
    with tempfile.TemporaryDirectory(prefix="fitdoctor-") as folder:
        place = os.path.join(folder, "records")
        count = size = 0
        until = time.monotonic() + SECONDS
        with tf.io.TFRecordWriter(place) as writer:
            for batch in dataset.take(MOST):
                for leaf in tf.nest.flatten(batch):
                    text = tf.io.serialize_tensor(leaf).numpy()
                    writer.write(text)
                    size += len(text)
                count += 1
                if count >= FEWEST and (time.monotonic() > until or size > MOST_BYTES):
                    break
        if count < FEWEST:
            raise CannotRun("the data ends after one batch")
        return open(place, "rb"), count


def _read(record: Any, spec: Any) -> Any:
    """Return the batches again, without end."""
    tf = sys.modules["tensorflow"]
    leaves = tf.nest.flatten(spec)

    def batch(texts: Any) -> Any:
        parsed = [tf.io.parse_tensor(texts[place], leaf.dtype) for place, leaf in enumerate(leaves)]
        shaped = [tf.ensure_shape(tensor, leaf.shape) for tensor, leaf in zip(parsed, leaves, strict=True)]
        return tf.nest.pack_sequence_as(spec, shaped)

    records = tf.data.TFRecordDataset(f"/proc/self/fd/{record.fileno()}").batch(len(leaves), drop_remainder=True)
    return records.map(batch, num_parallel_calls=tf.data.AUTOTUNE).repeat().prefetch(tf.data.AUTOTUNE)

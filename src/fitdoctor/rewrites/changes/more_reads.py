"""More reads at a time for maps that wait for files, stores or networks."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.probes.input_tf_built import built
from fitdoctor.rewrites import purity
from fitdoctor.rewrites.candidates import ANY_ORDER, IN_ORDER, Candidate, Refusal, Seen
from fitdoctor.rewrites.changes.parallel_map import name_of_function, with_calls
from fitdoctor.rewrites.datasets import paths

RULE = "starved-reads"
TRIED = (16, 64)
BUSY = 0.85
"""With this share of the cores busy while batches are made, nothing waits."""


def candidates(dataset: Any, seen: Seen) -> Iterator[Candidate | Refusal]:
    """Offer it for maps that read files or call Python, which may wait for something."""
    for path, stage in paths(dataset):
        if name_of(stage) not in ("Map", "ParallelMap"):
            continue
        contents = purity.of_stage(stage)
        if not (contents.reads_files or contents.python):
            yield Refusal(RULE, "the map reads no files and calls no Python: it has nothing to wait for")
            continue
        if seen.pace is not None and seen.pace.cores > BUSY * seen.cores:
            yield Refusal(RULE, "the cores are busy while batches are made: reads do not wait")
            continue
        if vars(stage).get("_force_synchronous"):
            yield Refusal(RULE, "the script asks for a map that runs in the thread that reads it")
            continue
        own = int(stage._num_parallel_calls) if name_of(stage) == "ParallelMap" else 1
        for calls in TRIED:
            if own < calls:
                yield Candidate(
                    rule=RULE,
                    path=path,
                    op=name_of(stage),
                    site=built(stage),
                    settings=f"{calls} calls at a time, on threads of their own",
                    code=f".map({name_of_function(stage)}, num_parallel_calls={calls}, use_unbounded_threadpool=True)",
                    promise=ANY_ORDER if purity.reorders(dataset) else IN_ORDER,
                    safety="same" if contents.pure else "may change",
                    apply=functools.partial(with_calls, path=path, calls=calls, unbounded=True),
                )

"""Several files read at a time, where an interleave or a flat_map reads one after the other."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.probes.input_tf_built import built
from fitdoctor.rewrites import purity
from fitdoctor.rewrites.candidates import ANY_ORDER, IN_ORDER, Candidate, Refusal, Seen
from fitdoctor.rewrites.changes.parallel_map import AUTOTUNE, name_of_function
from fitdoctor.rewrites.datasets import Path, at, fresh, parallel_interleave, paths, replaced
from fitdoctor.rewrites.stages import inputs

RULE = "starved-reads"
CYCLE = 16
"""Files read at a time in place of a flat_map."""


def candidates(dataset: Any, seen: Seen) -> Iterator[Candidate | Refusal]:
    """Keep the order of an interleave; a flat_map needs another one, so it needs consent."""
    del seen
    for path, stage in paths(dataset):
        contents = purity.of_stage(stage)
        if name_of(stage) == "Interleave":
            if contents.touches:
                yield Refusal(RULE, f"the interleave reads one after the other: {contents.touches}")
                continue
            yield _candidate(
                dataset,
                path,
                stage,
                None,
                f"interleave({name_of_function(stage)}, num_parallel_calls=tf.data.AUTOTUNE)",
            )
        elif name_of(stage) == "FlatMap" and contents.reads_files and not contents.touches:
            code = f"interleave({name_of_function(stage)}, cycle_length={CYCLE}, num_parallel_calls={CYCLE})"
            yield _candidate(dataset, path, stage, CYCLE, code)


def _candidate(dataset: Any, path: Path, stage: Any, cycle: int | None, code: str) -> Candidate:
    in_order = cycle is None and not purity.reorders(dataset)
    return Candidate(
        rule=RULE,
        path=path,
        op=name_of(stage),
        site=built(stage),
        settings=f"{cycle} files at a time" if cycle else "its files are read at the same time",
        code=f".{code}",
        promise=IN_ORDER if in_order else ANY_ORDER,
        safety="same" if cycle is None and purity.of_stage(stage).pure else "may change",
        apply=functools.partial(_parallel, path=path, cycle=cycle),
    )


def _parallel(dataset: Any, *, path: Path, cycle: int | None) -> Any:
    dataset = fresh(dataset)
    stage = at(dataset, path)
    return replaced(dataset, path, parallel_interleave(stage, inputs(stage)[0], cycle or AUTOTUNE, cycle))

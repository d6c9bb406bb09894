"""A prefetch at the end, where nothing prepares the next batch while the step computes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from fitdoctor.probes.dataset_tf import name_of
from fitdoctor.probes.input_tf_built import built
from fitdoctor.rewrites.candidates import IN_ORDER, Candidate, Refusal, Seen
from fitdoctor.rewrites.datasets import fresh, paths

RULE = "missing-prefetch"


def candidates(dataset: Any, seen: Seen) -> Iterator[Candidate | Refusal]:
    """Offer it where neither the user nor TensorFlow has one."""
    del seen
    end = next(stage for _, stage in paths(dataset) if name_of(stage) != "Options")
    prefetches = name_of(end) == "Prefetch"
    if prefetches and int(end._buffer_size) != 0:
        return
    if not prefetches and _injected(dataset.options()):
        return
    yield Candidate(
        rule=RULE,
        path=(),
        op=name_of(end),
        site=built(end),
        settings="the next batch is prepared meanwhile",
        code=".prefetch(tf.data.AUTOTUNE)",
        promise=IN_ORDER,
        safety="same",
        apply=lambda data: fresh(data).prefetch(sys.modules["tensorflow"].data.AUTOTUNE),
        overlaps=True,
    )


def _injected(options: Any) -> bool:
    """Tell whether TensorFlow adds one by itself: measured, see the page of missing-prefetch."""
    said = options.experimental_optimization.inject_prefetch
    wanted = said if said is not None else options.experimental_optimization.apply_default_optimizations is not False
    return options.autotune.enabled is not False and bool(wanted)

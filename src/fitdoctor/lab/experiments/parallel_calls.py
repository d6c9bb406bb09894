"""A tf.data pipeline with its maps called several at a time, where the user calls them one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.experiments.loader_alone import Puller
from fitdoctor.lab.job import Job
from fitdoctor.lab.rebuilt import rebuilt
from fitdoctor.probes.dataset_tf import name_of, stages

NAME = "parallel calls"
TRIED = (2, 4)


def worth(seen: Seen) -> float:
    """Weigh pipelines with a map that is called for one element after the other."""
    if seen.info.get("adapter") != "tf.data":
        return 0.0
    serial = any(each.get("op") == "Map" and not each.get("parallel") for each in seen.info.get("dataset") or ())
    return 0.5 if serial else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Pull batches from the pipeline built again with parallel calls, in turns with one built again as it is."""
    del seen
    every = list(stages(job.given.get("x")))
    maps = [place for place, stage in enumerate(every) if name_of(stage) == "Map"]
    if not maps or maps[-1] + 1 >= len(every):
        raise CannotRun("no map of this pipeline is called for one element after the other")
    above, source = every[: maps[-1] + 1], every[maps[-1] + 1]

    def pull(parallel: int | None) -> Callable[[], float]:
        data: Any = rebuilt(source, above, job.batch_rows, parallel=parallel, remedy="try it in the script")
        options = job.given["x"].options()
        puller = Puller(lambda: iter(data.with_options(options)))
        puller.block()
        return puller.block

    as_is = pull(None)
    for count in TRIED:
        detail = {"unit": "ns per batch", "parallel": count}
        yield Comparison(f"num_parallel_calls={count}", pull(count), as_is, detail)

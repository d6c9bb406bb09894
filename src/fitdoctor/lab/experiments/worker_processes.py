"""A PyDataset whose batches are made in processes, each seeded on its own, in turns with its own workers.

A plain generator of batches is forked as it is: each process goes on with its own.  That is what a PyDataset with
worker processes would take for batches like these; that the same ones come several times does not matter to the clock.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab import in_turn
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import Job, Offer
from fitdoctor.lab.loading import pull
from fitdoctor.rewrites.loader_copies import is_pydataset
from fitdoctor.rewrites.processes import Crew, in_processes
from fitdoctor.rewrites.randomness import unchanged

NAME = "worker processes"
TRAINS = False
OFFERS = True
TRY_SECONDS = 15.0
"""A forked process can block on a lock that nobody gives back: after so long without a batch it is ended."""
WAITS = 0.5
"""A batch that spends less than this of its time on the CPU waits for something: threads do for that."""
LOOKS, LOOK_SECONDS = 5, 1.0


def worth(seen: Seen) -> float:
    """Weigh the wait for input."""
    mine = seen.info.get("adapter") == "PyDataset" and not seen.info.get("multiprocessing")
    return 0.1 + seen.shares["fetch"] if mine or seen.info.get("adapter") == "generator" else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Try as many processes as there are cores, and two."""
    data: Any = job.given.get("x")
    still: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    said: dict[str, Any] = {}
    if isinstance(data, types.GeneratorType):
        if _connected():
            raise CannotRun("the script holds connections, which processes cannot share", do="try it in the script")
        said = in_turn.written_at(data)
        still = functools.partial(in_turn.still, data)
        data = _drawn()(data, seen.info.get("steps_per_epoch"))
    elif not is_pydataset(data) or data.use_multiprocessing:
        raise CannotRun("the input is no PyDataset without processes")
    else:
        wall, cpu = making(data)
        if cpu < WAITS * wall:
            raise CannotRun("making a batch waits more than it computes: threads do for that")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for count in sorted({2, max(2, min(cores, 8))}):
        dataset, crew = in_processes(data, count, limit=TRY_SECONDS, still=still)
        _first_batch(crew)
        own = max(1, int(data.workers))
        detail = {"unit": "ns per batch", "processes": count, "own": own, "start_s": crew.start_s, **said}
        # They end with the comparison, and start again when the rehearsal asks them.
        job.offers.append(Offer(f"processes={count}", "gil-bound-workers", _given(dataset), end=crew.stop))
        changed, as_is = functools.partial(pull, job, dataset), functools.partial(pull, job)
        yield Comparison(f"processes={count}", changed, as_is, detail, late=functools.partial(_ended, crew))


def _first_batch(crew: Crew) -> None:
    """Have a batch made on this thread, where nobody else waits: where that fails no process is left behind."""
    try:
        crew.make(0, 0)
    except StopIteration:
        crew.stop()
        raise CannotRun(
            "the data is used up: it cannot be begun anew", do="try it with data that can be read twice"
        ) from None
    except BaseException:
        crew.stop()
        raise


@functools.cache
def _drawn() -> Any:
    """Build the class on first use: only then is Keras needed."""
    import keras

    class Drawn(keras.utils.PyDataset):  # type: ignore[misc]
        """A generator of batches as a dataset: whatever the number of the batch, the next one."""

        def __init__(self, generator: Any, batches: int | None) -> None:
            super().__init__()
            self._generator = generator
            self._batches = batches

        @property
        def num_batches(self) -> int | None:
            """As many as the script takes for an epoch; None where it does not say."""
            return self._batches

        def __getitem__(self, index: int) -> Any:
            return in_turn.draw(self._generator)

    return Drawn


def _connected() -> bool:
    """Tell whether this process holds a connection: to a database, a store."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError, AttributeError):
        process = psutil.Process()
        kept = getattr(process, "net_connections", None) or process.connections
        return any(each.status == psutil.CONN_ESTABLISHED for each in kept("inet"))
    return False


def _given(dataset: Any) -> Callable[[bool], dict[str, Any]]:
    return lambda whole: {"x": dataset}


def making(data: Any) -> tuple[float, float]:
    """Return the seconds that a batch takes on this thread, and of its CPU time: where it got most of a core.

    On a machine that others use a batch waits for a core too; that is no waiting of its own.
    """
    tries = []
    with unchanged(data):
        data[0]
        until = time.perf_counter() + LOOK_SECONDS
        for _ in range(LOOKS):
            start, start_cpu = time.perf_counter(), time.thread_time()
            data[0]
            tries.append((time.perf_counter() - start, time.thread_time() - start_cpu))
            if time.perf_counter() > until:
                break
    return max(tries, key=lambda each: each[1] / max(each[0], 1e-9))


def _ended(crew: Any) -> dict[str, Any]:
    crew.stop()
    return {}

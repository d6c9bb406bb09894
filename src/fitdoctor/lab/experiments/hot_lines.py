"""The lines of the user's own that make batches: which take the time, in which loops, and how much of it Python itself.

Batches are made alone, on one thread, whatever workers the loader has.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab import hot_lines, in_turn
from fitdoctor.lab.bench import Comparison, Seen
from fitdoctor.lab.job import BLOCK_SECONDS, Job
from fitdoctor.probes.code_loops import CodeLoop, outermost
from fitdoctor.probes.dataset_tf import stages
from fitdoctor.probes.input_tf_generators import KEPT
from fitdoctor.rewrites.loader_copies import is_dataloader, is_pydataset, with_processes
from fitdoctor.rewrites.randomness import unchanged

NAME = "hot lines of the loader"
TRAINS = False
_FEWEST = 2


def worth(seen: Seen) -> float:
    """Weigh loaders written in Python."""
    if seen.info.get("adapter") in ("PyDataset", "DataLoader", "generator"):
        return 1.0 + seen.shares["fetch"]
    return 1.0 if any(each.get("generator") for each in seen.info.get("dataset") or ()) else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison]:
    """Make batches under observation."""
    del seen
    profile = Profile(_maker(job), job.given.get("x"))
    yield Comparison("hot lines", profile.block, detail={"unit": "ns per batch"}, late=profile.detail)


class Profile:
    """Makes batches in blocks and keeps where the time went."""

    def __init__(self, make: Callable[[], Any], data: Any) -> None:
        self._make = make
        self._data = data
        self._sampler = hot_lines.Sampler()
        self._batches = self._wall_ns = self._cpu_ns = 0

    def block(self, seconds: float = BLOCK_SECONDS) -> float:
        """Return nanoseconds per batch."""
        count, start, start_cpu = 0, time.perf_counter_ns(), time.thread_time_ns()

        def work() -> None:
            nonlocal count
            while time.perf_counter_ns() - start < seconds * 1e9 or count < _FEWEST:
                self._make()
                count += 1

        with unchanged(self._data):
            self._sampler.watch(work)
        wall = time.perf_counter_ns() - start
        self._batches, self._wall_ns = self._batches + count, self._wall_ns + wall
        self._cpu_ns += time.thread_time_ns() - start_cpu
        return wall / count

    def detail(self) -> dict[str, Any]:
        """Return the lines and loops that took the time, as shares of it."""
        counter = hot_lines.Counter()
        with unchanged(self._data):
            counter.count(self._make)
        total = max(1, self._sampler.total)
        lines: dict[tuple[str, int, str], int] = {}
        loops: dict[CodeLoop, int] = {}
        for stack, weight in self._sampler.weights.items():
            if stack:
                code, line, _ = stack[-1]
                key = code.co_filename, line, code.co_name
                lines[key] = lines.get(key, 0) + weight
                loop = outermost(list(stack))
                if loop is not None:
                    loops[loop] = loops.get(loop, 0) + weight
        ranked = sorted(lines.items(), key=lambda each: -each[1])[: hot_lines.MOST_LINES]
        tell = functools.partial(self._loop, counter, total)
        return {
            "cpu_ns": self._cpu_ns / max(1, self._batches),
            "lines": [
                {"path": path, "line": line, "symbol": symbol, "share": weight / total}
                for (path, line, symbol), weight in ranked
            ],
            "loops": [tell(loop, weight) for loop, weight in sorted(loops.items(), key=lambda each: -each[1])],
        }

    def _loop(self, counter: hot_lines.Counter, total: int, loop: CodeLoop, weight: int) -> dict[str, Any]:
        """Tell what is known of a loop; its own nanoseconds per batch, and those the interpreter needs at least."""
        instructions, operations = counter.counts.get(loop, [0, 0])
        python_ns = instructions * hot_lines.instruction_ns()
        return {
            "path": loop.path,
            "line": loop.line,
            "end_line": loop.node.end_lineno,
            "symbol": loop.symbol,
            "share": weight / total,
            "python_ns": python_ns,
            "small_ns": python_ns + operations * hot_lines.small_operation_ns(),
            "arrays": counter.arrays.get(loop, False),
        }


def _maker(job: Job) -> Callable[[], Any]:
    """Return what makes one batch after the other, on the calling thread."""
    data: Any = job.given.get("x")
    if is_pydataset(data):
        count = data.num_batches
        places = itertools.cycle(range(count)) if count else itertools.count()
        return lambda: data[next(places)]
    if is_dataloader(data):
        return _again(lambda: with_processes(data, 0, keep=False))
    for stage in stages(data):
        kept = vars(stage).get(KEPT) if hasattr(stage, "__dict__") else None
        if kept is not None:
            generator, args = kept
            begin = functools.partial(generator, *(getattr(each, "numpy", lambda each=each: each)() for each in args))
            elements = _again(begin)
            return lambda: [elements() for _ in range(job.batch_rows)]
    if hasattr(data, "__next__"):
        return lambda: in_turn.draw(data)
    raise CannotRun("the batches of this loader are not made by Python that can be called alone")


def _again(begin: Callable[[], Iterable[Any]]) -> Callable[[], Any]:
    """Return what takes one after the other and begins anew at the end."""
    under_way: Iterator[Any] = iter(())

    def take() -> Any:
        nonlocal under_way
        for _ in range(2):
            for each in under_way:
                return each
            under_way = iter(begin())
        raise CannotRun("the data is used up: it cannot be begun anew", do="try it with data that can be read twice")

    return take

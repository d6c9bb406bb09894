"""Loaders written in Python: what making a batch takes, how many lie ready, what starting and stopping workers costs.

Every hook stands between two batches and reads a clock or two.  Batches made in other processes are not seen one by
one: how long they are waited for is, and the CPU time of the children (`host.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.install import ImportWatch, Patches, hide
from fitdoctor.probes.steps import Tracker

MOST_DEPTHS = 120
"""Of so many batches, spread over the run, it is kept how many lay ready when they were asked for."""


class LoaderTimes:
    """What was seen of one loader."""

    def __init__(self) -> None:
        self.made: list[tuple[int, int]] = []
        """Wall and CPU nanoseconds of batches that were not added up yet; threads append."""
        self.depths: list[int] = []
        self.every = 1
        """Of so many batches one is kept in `depths`."""
        self.asked = self.empty = self.early = 0
        """Batches asked for; of those, that were not ready; of those, for which a later one was."""
        self.starts: list[int] = []
        """Nanoseconds from the start of workers to their first batch."""
        self.stops: list[int] = []
        self.begun_ns: int | None = None
        self.totals = [0, 0, 0]

    def ready(self, count: int, early: bool) -> None:
        """Note how many batches lie ready as the next is asked for; `early`: a later one does, the next does not."""
        if self.asked % self.every == 0:
            self.depths.append(count)
            if len(self.depths) > MOST_DEPTHS:
                self.depths, self.every = self.depths[::2], 2 * self.every
        self.asked += 1
        self.empty += count == 0 or early
        self.early += early

    def summary(self) -> dict[str, Any]:
        """Return what a capture keeps."""
        made = self.made[:]
        del self.made[: len(made)]
        for wall, cpu in made:
            self.totals[0] += 1
            self.totals[1] += wall
            self.totals[2] += cpu
        count, wall_ns, cpu_ns = self.totals
        return {
            "made": count, "wall_ns": wall_ns, "cpu_ns": cpu_ns, "asked": self.asked, "empty": self.empty,
            "early": self.early, "depths": self.depths[:], "starts": len(self.starts), "start_ns": sum(self.starts),
            "stops": len(self.stops), "stop_ns": sum(self.stops),
        }  # fmt: skip


class LoaderProbe:
    """Hooks on Keras's pool for a `PyDataset` and on torch's `DataLoader`."""

    def __init__(self, tracker: Tracker, patches: Patches, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._tracker = tracker
        self._patches = patches
        self._clock = clock
        self._seen: dict[int, tuple[ActiveCall, LoaderTimes]] = {}
        tracker.recorder.on_flush.append(self.save)

    def attach(self, watch: ImportWatch) -> None:
        """Wait for Keras and torch."""
        watch.when("keras.src.trainers.data_adapters.py_dataset_adapter", self._pydataset)
        watch.when("torch.utils.data.dataloader", self._dataloader)

    def _pydataset(self) -> None:
        from keras.src.trainers.data_adapters import py_dataset_adapter as module

        wrap = self._patches.wrap
        for name in ("_finite_generator", "_infinite_generator"):
            wrap(module.PyDatasetAdapter, name, lambda original: self._generated(original))
        wrap(module, "get_index", self._timed)
        wrap(module.OrderedEnqueuer, "get", lambda original: self._queued(original))
        wrap(module.PyDatasetEnqueuer, "start", self._started)
        wrap(module.PyDatasetEnqueuer, "stop", self._stopped)

    def _dataloader(self) -> None:
        from torch.utils.data import dataloader as module

        wrap = self._patches.wrap
        wrap(module._SingleProcessDataLoaderIter, "_next_data", self._timed)
        wrap(module._MultiProcessingDataLoaderIter, "__init__", self._begun)
        wrap(module._MultiProcessingDataLoaderIter, "_next_data", self._received)
        wrap(module._MultiProcessingDataLoaderIter, "_shutdown_workers", self._shut)

    def times(self) -> LoaderTimes | None:
        """Return where the training that is in its steps keeps what is seen; None where there is none."""
        call = self._tracker.fitting
        if call is None or not call.in_loop or not self._tracker.recorder.live:
            return None
        entry = self._seen.get(call.id)
        if entry is None:
            entry = self._seen.setdefault(call.id, (call, LoaderTimes()))
        return entry[1]

    def save(self) -> None:
        """Put what was seen into the rows of the calls."""
        for call, seen in list(self._seen.values()):
            call.info["loader"] = seen.summary()
            self._tracker.save(call)
            if call.end_ns is not None:
                self._seen.pop(call.id, None)

    # --- a batch is made --------------------------------------------------------------------------

    def _timed(self, original: Any) -> Callable[..., Any]:
        wall, cpu = self._clock, time.thread_time_ns

        def timed(*args: Any) -> Any:
            seen = self.times()
            if seen is None:
                return original(*args)
            start, start_cpu = wall(), cpu()
            try:
                batch = original(*args)
            except BaseException as error:
                hide(error)
                raise
            seen.made.append((wall() - start, cpu() - start_cpu))
            return batch

        return timed

    def _generated(self, original: Any) -> Callable[..., Any]:
        """Time the batches that Keras makes one by one, without workers."""

        def batches(adapter: Any) -> Iterator[Any]:
            take = self._timed(original(adapter).__next__)
            while True:
                try:
                    batch = take()
                except StopIteration:
                    return
                yield batch

        return batches

    # --- Keras's pool -----------------------------------------------------------------------------

    def _queued(self, original: Any) -> Callable[..., Any]:
        def get(enqueuer: Any) -> Iterator[Any]:
            batches = original(enqueuer)
            while True:
                seen = self.times()
                if seen is not None:
                    ready = [future.ready() for future in list(enqueuer.future_queue.queue) if hasattr(future, "ready")]
                    seen.ready(sum(ready), early=any(ready) and not ready[0])
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                except BaseException as error:
                    hide(error)
                    raise
                if seen is not None:
                    self._first(seen)
                yield batch

        return get

    def _first(self, seen: LoaderTimes) -> None:
        begun, seen.begun_ns = seen.begun_ns, None
        if begun is not None:
            seen.starts.append(self._clock() - begun)

    def _started(self, original: Any) -> Callable[..., Any]:
        def start(enqueuer: Any) -> None:
            seen = self.times() if not enqueuer.running else None
            if seen is not None:
                seen.begun_ns = self._clock()
            original(enqueuer)

        return start

    def _stopped(self, original: Any) -> Callable[..., Any]:
        def stop(enqueuer: Any, *args: Any, **kwargs: Any) -> None:
            seen = self.times() if getattr(enqueuer, "running", False) else None
            start = self._clock()
            original(enqueuer, *args, **kwargs)
            if seen is not None:
                seen.stops.append(self._clock() - start)

        return stop

    # --- torch's processes ------------------------------------------------------------------------

    def _begun(self, original: Any) -> Callable[..., Any]:
        def __init__(iterator: Any, loader: Any) -> None:  # noqa: N807
            seen = self.times()
            if seen is not None:
                seen.begun_ns = self._clock()
            original(iterator, loader)

        return __init__

    def _received(self, original: Any) -> Callable[..., Any]:
        def _next_data(iterator: Any) -> Any:
            seen = self.times()
            if seen is None:
                return original(iterator)
            seen.ready(*_ready(iterator))
            try:
                batch = original(iterator)
            except BaseException as error:
                hide(error)
                raise
            self._first(seen)
            return batch

        return _next_data

    def _shut(self, original: Any) -> Callable[..., Any]:
        def _shutdown_workers(iterator: Any) -> None:
            seen = self.times() if not getattr(iterator, "_shutdown", True) else None
            start = self._clock()
            original(iterator)
            if seen is not None:
                seen.stops.append(self._clock() - start)

        return _shutdown_workers


def _ready(iterator: Any) -> tuple[int, bool]:
    """Return how many batches of a `DataLoader` lie ready, and whether only later ones than the next do."""
    try:
        waiting = int(iterator._data_queue.qsize())
    except NotImplementedError:  # macOS cannot tell
        waiting = 0
    arrived = [place for place, task in iterator._task_info.items() if len(task) == 2]
    early = bool(arrived) and iterator._rcvd_idx not in arrived and waiting == 0
    return waiting + len(arrived), early

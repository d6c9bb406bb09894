"""A `PyDataset` whose batches are made in worker processes that are kept from epoch to epoch.

Keras's own processes are forked anew in every epoch and get no seed.  Here Keras only starts threads, which ask
processes that stay; order, shuffling and reading ahead remain Keras's business.  Before each batch every generator is
seeded by the script's seed, the epoch and the number of the batch: no two batches draw the same numbers, whichever
process makes them, and a run with the same seed draws them again.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.rewrites.randomness import base_seed, reseed

LIMIT_SECONDS = 300.0
"""A process that made no batch for so long will not: forked ones can block on a lock that nobody gives back."""
_REMEDY = "make it with threads (workers=…) instead, or prepare the data once, offline"

_data: Any = None
_base = 0


def _begin(data: Any, base: int) -> None:
    """Run in a worker process, once."""
    global _data, _base
    _data, _base = data, base
    # A terminal sends Ctrl-C to all of us: whoever asks for the batches decides, and ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch = sys.modules.get("torch")
    if torch is not None:
        # As torch's own loader does: the threads of the parent's pool do not exist here.
        torch.set_num_threads(1)


def _make(epoch: int, index: int) -> Any:
    """Run in a worker process, for each batch."""
    reseed(_data, _base, epoch, index)
    return _data[index]


class Crew:
    """Worker processes that make the batches of one dataset, started when first asked."""

    def __init__(
        self,
        data: Any,
        count: int,
        limit: float = LIMIT_SECONDS,
        still: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """`still`: while the processes are forked; they have what is under way as it is then."""
        if "fork" not in multiprocessing.get_all_start_methods():
            raise CannotRun("this system cannot fork, and other workers would run the script again", do=_REMEDY)
        self._data = data
        self._count = count
        self._still = still
        self._base = base_seed()
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        self._children: list[Any] = []
        self._failed = ""
        self.limit = limit
        self.start_s: float | None = None
        """Seconds until the first batch was there, with the start of the processes."""

    def make(self, epoch: int, index: int) -> Any:
        """Return a batch; on any thread."""
        begun = time.perf_counter()
        if self._failed:
            # The threads that still wait for a batch must not wait as long again, one after the other.
            raise CannotRun(self._failed, do=_REMEDY)
        future = self._submit(epoch, index)
        try:
            batch = future.result(self.limit)
        except concurrent.futures.TimeoutError:
            self._failed = f"a worker process gave no batch within {self.limit:.0f} s"
        except (BrokenProcessPool, concurrent.futures.CancelledError):
            self._failed = self._failed or "a worker process died"
        if self._failed:
            self.stop()
            raise CannotRun(self._failed, do=_REMEDY)
        if self.start_s is None:
            self.start_s = time.perf_counter() - begun
        return batch

    def _submit(self, epoch: int, index: int) -> concurrent.futures.Future[Any]:
        with self._lock:
            if self._pool is None:
                before = set(multiprocessing.active_children())
                self._pool = concurrent.futures.ProcessPoolExecutor(
                    self._count, multiprocessing.get_context("fork"), _begin, (self._data, self._base)
                )
                with self._still():
                    future = self._pool.submit(_make, epoch, index)
                self._children = [each for each in multiprocessing.active_children() if each not in before]
                return future
            return self._pool.submit(_make, epoch, index)

    def stop(self) -> None:
        """End the processes, also those that do not answer; they start again when asked."""
        # Of several threads that stop them none returns before they have ended.
        with self._ending:
            with self._lock:
                pool, self._pool = self._pool, None
                children, self._children = self._children, []
            for child in children:
                child.kill()
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
            deadline = time.monotonic() + 5
            for child in children:
                child.join(max(0.0, deadline - time.monotonic()))
                # The pool's own thread waits for them as well: what it has reaped is told to us a moment later.
                while child.exitcode is None and time.monotonic() < deadline:
                    time.sleep(0.005)


@functools.cache
def _class() -> Any:
    """Build the class on first use: only then is Keras needed."""
    import keras

    class InProcesses(keras.utils.PyDataset):  # type: ignore[misc]
        """A dataset whose batches a crew makes."""

        def __init__(self, inner: Any, crew: Crew, workers: int, max_queue_size: int) -> None:
            super().__init__(workers=workers, use_multiprocessing=False, max_queue_size=max_queue_size)
            self._inner = inner
            self._crew = crew
            self._epoch = 0
            # What the dataset changes between epochs, kept processes would not see.
            self._renew = type(inner).on_epoch_end is not keras.utils.PyDataset.on_epoch_end

        def __getitem__(self, index: int) -> Any:
            return self._crew.make(self._epoch, index)

        @property
        def num_batches(self) -> Any:
            """As many as the dataset has."""
            return self._inner.num_batches

        def __len__(self) -> int:
            return len(self._inner)

        def on_epoch_begin(self) -> None:
            """Tell the dataset."""
            self._inner.on_epoch_begin()

        def on_epoch_end(self) -> None:
            """Tell the dataset; the next epoch draws other numbers."""
            self._inner.on_epoch_end()
            self._epoch += 1
            if self._renew:
                self._crew.stop()

        def __getattr__(self, name: str) -> Any:
            if name in ("_inner", "_crew", "_epoch"):
                raise AttributeError(name)
            return getattr(self._inner, name)

    return InProcesses


def in_processes(
    data: Any,
    count: int,
    *,
    limit: float = LIMIT_SECONDS,
    still: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> tuple[Any, Crew]:
    """Return the dataset with so many kept worker processes, and the crew that must be stopped when it is done with."""
    import keras

    if type(data).on_epoch_begin is not keras.utils.PyDataset.on_epoch_begin:
        raise CannotRun("the dataset changes itself when an epoch begins: worker processes do not see it", do=_REMEDY)
    crew = Crew(data, count, limit, still)
    # One thread more than processes: a process that is done finds its next task waiting.
    return _class()(data, crew, count + 1, int(data.max_queue_size)), crew

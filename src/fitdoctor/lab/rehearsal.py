"""The very training on changed data, in short blocks: what a change of the input gives beside the step.

Short epochs are rehearsed whole, with what Keras does between them.  Of longer ones only steps are: the data goes on
from one block to the next, so that no block begins by filling buffers, and where it ends it is begun anew, which does
not count.  The user's callbacks take no part.
"""

from __future__ import annotations

import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from fitdoctor.errors import CannotRun
from fitdoctor.lab import in_turn
from fitdoctor.lab.bench import BLOCKS_EXPECTED, Comparison
from fitdoctor.lab.freeing import Freeing
from fitdoctor.lab.job import BARE, Job, Variant, wait_for
from fitdoctor.lab.loading import begun_anew, end_workers
from fitdoctor.rewrites.randomness import taken

ADAPTERS = ("tf.data", "PyDataset", "DataLoader", "arrays")
"""Data that can be begun anew."""
FASTER = 0.95
"""What takes a larger share of its time would not be felt."""
SECONDS = 0.4
LEAD_SECONDS = 0.15
"""Trained before anything counts: what was prepared while nobody asked would look like speed."""
EPOCH_SECONDS = 3.0
"""Epochs that take no longer are rehearsed whole: what Keras does between them may take as long as their steps."""
_WARM, _FEWEST = 2, 3
_EPOCHS = 2
"""Epochs that count, at least; of long ones one is enough."""
_LONG_SECONDS = 2 * SECONDS
_FAR_LONGER = 5
MOST_SECONDS = 15.0
"""A block that takes longer is given up: it would use up the time of other experiments."""
_ENDLESS = 10**9
_USED_UP, _TWICE = "the data is used up: it cannot be begun anew", "try it with data that can be read twice"


class Rehearsal(Protocol):
    """A training in blocks."""

    whole: bool
    """Whether what happens between epochs counts."""

    def block(self) -> float:
        """Train a block and return nanoseconds per optimizer step."""
        ...

    def end(self) -> None:
        """End the workers, and put the generators back that the data drew from."""
        ...


def epoch_seconds(job: Job, step_ns: float, begins: float | None = None) -> float | None:
    """Return about how long an epoch takes, where it is short enough to be rehearsed whole in the time there is.

    That `begins` on the monotonic clock: now, unless others come first.
    """
    count = batches(job)
    seconds = count * step_ns / 1e9
    ends = (time.monotonic() if begins is None else begins) + BLOCKS_EXPECTED * block_seconds(step_ns, seconds)
    return seconds if count > 0 and seconds <= EPOCH_SECONDS and ends <= job.last else None


def batches(job: Job) -> int:
    """Return how many batches an epoch has; 0: not known."""
    return int(job.given.get("steps_per_epoch") or job._adapter().num_batches or 0)


def block_seconds(step_ns: float, epoch: float | None) -> float:
    """Return about how long a block takes."""
    if epoch is not None:
        counted = 1 if epoch > _LONG_SECONDS else _EPOCHS
        return max(SECONDS + epoch, (1 + counted) * epoch)
    return max(LEAD_SECONDS + SECONDS, (_WARM + _FEWEST) * step_ns / 1e9)


def rehearsal(job: Job, *, whole: bool, variant: Variant = BARE, **given: Any) -> Rehearsal:
    """Return the training with some of its data given anew, or with other settings, to be run in blocks."""
    return Epochs(job, given, variant) if whole else Steps(job, given, variant)


def with_settings(job: Job, step_ns: float, adapter: str, names: Mapping[str, Variant]) -> Iterator[Comparison]:
    """Yield the training on its own data with the settings that won on one batch, in turns with the training as it is.

    `names` are trials on one batch, which come before it.  There the data costs nothing; in the training making it may
    cost as much as the step, and with other settings less or more of it.
    """
    if adapter not in ADAPTERS:
        return
    # What comes before may take all of the experiment's own time.
    epoch = epoch_seconds(job, step_ns, begins=job.until)
    for name, variant in names.items():
        whole = epoch is not None
        both = [_Late(job, whole, BARE), _Late(job, whole, variant)]
        yield Comparison(
            f"rehearsed: {name}",
            both[1].block,
            both[0].block,
            {"unit": "ns per trained step", "whole": whole, "rehearses": name},
            functools.partial(_end, both),
            functools.partial(_not_the_best, job, name, tuple(names)),
            # An execution of several steps is as long as all of them.
            block_seconds(step_ns if whole else step_ns * _steps(job, variant), epoch),
        )


def _not_the_best(job: Job, name: str, among: tuple[str, ...]) -> bool:
    ratios = {each: job.results[each] for each in among if each in job.results}
    return name not in ratios or ratios[name] > min(*ratios.values(), FASTER)


def _end(rehearsals: list[_Late]) -> dict[str, Any]:
    for each in rehearsals:
        each.end()
    return {}


class _Late:
    """A rehearsal that is made when it is first run."""

    def __init__(self, job: Job, whole: bool, variant: Variant) -> None:
        self._make = functools.partial(rehearsal, job, whole=whole, variant=variant)
        self._made: Rehearsal | None = None

    def block(self) -> float:
        if self._made is None:
            self._made = self._make()
        return self._made.block()

    def end(self) -> None:
        if self._made is not None:
            self._made.end()


class Epochs:
    """Whole epochs, from the end of one to the end of another; the first of a block does not count.

    Never a part of one: TensorFlow does not let Python end while a thread of an abandoned iterator still runs some.
    """

    whole = True

    def __init__(self, job: Job, given: dict[str, Any], variant: Variant = BARE) -> None:
        self._job = job
        self._variant = variant
        self._batches = batches(job)
        names = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "class_weight", "shuffle")
        self._given = {name: value for name, value in {**job.given, **given}.items() if name in names}
        self._put_back = taken(self._given.get("x"))
        self._freeing = Freeing()

    def block(self) -> float:
        """Train until enough epochs were seen from one end to the next."""
        from keras.callbacks import LambdaCallback

        model, marks, freeing = self._job.model, list[int](), self._freeing

        def ends(epoch: int, logs: Any = None) -> None:
            marks.append(time.perf_counter_ns())
            freeing.epoch_ended()
            if marks[-1] - marks[0] > (SECONDS if len(marks) > _EPOCHS else _LONG_SECONDS) * 1e9:
                model.stop_training = True

        freeing.begin()
        with self._job._as(self._variant) as timer:
            function = timer.function
            begun = time.monotonic()

            def run(*args: Any) -> Any:
                _within(begun)
                freeing.step_begins()
                return function(*args)

            model.train_function = run
            watching = [LambdaCallback(on_epoch_end=ends)]
            given = {**self._given, "x": in_turn.shared(self._given.get("x"))}
            model.fit(**given, epochs=_ENDLESS, verbose=0, callbacks=watching)
        if len(marks) < 2:
            raise CannotRun(_USED_UP, do=_TWICE)
        # Elsewhere the first batch is fetched there.
        stalls = freeing.stalls() if self._job.backend == "tensorflow" else [0] * (len(marks) - 1)
        return _per_epoch(marks, stalls) / self._batches

    def end(self) -> None:
        """Put the generators back that the data drew from."""
        self._put_back()


def _per_epoch(marks: list[int], stalls: list[int]) -> float:
    """Return nanoseconds per epoch, by when each ended, without the stalls of all but the first.

    Ending the workers of a loader can hang for seconds, once in a while: an epoch far longer than another is left out.
    """
    took = [then - now - stall for (now, then), stall in zip(itertools.pairwise(marks), stalls, strict=True)]
    kept = [each for each in took if each <= _FAR_LONGER * min(took)]
    return sum(kept) / len(kept)


class Steps:
    """Steps in the middle of an epoch: the train function is handed batches of its own, whatever `fit` fetched."""

    whole = False

    def __init__(self, job: Job, given: dict[str, Any], variant: Variant = BARE) -> None:
        if _replicas() > 1:
            raise CannotRun("the batches of several replicas cannot be exchanged from outside")
        self._job, self._variant = job, variant
        x = given.pop("x", job.given.get("x"))
        self._put_back = taken(x)
        self._adapter = job._adapter(x, **given)
        self._begin: Callable[[], Any] = job._epochs(self._adapter)
        self.batches: Any = None
        self.begun_ns: list[int] = []
        """What it took, each time, from the end of the data to the end of the first step on it begun anew."""

    def block(self) -> float:
        """Train for a while."""
        job = self._job
        if self.batches is None:
            self.batches = iter(self._begin())
        with job._as(self._variant) as timer:
            feeding = _Feeding(self, timer.function)
            job.model.train_function = feeding.run
            source = job._source(BARE)
            job.model.fit(x=source, steps_per_epoch=_ENDLESS, epochs=1, verbose=0)
        return feeding.per_execution() / _steps(job, self._variant)

    def anew(self) -> None:
        """Begin the data anew."""
        self.batches = begun_anew(self._job, self._adapter, self._begin)

    def end(self) -> None:
        """End the workers, and put the generators back that the data drew from."""
        self.batches = None
        end_workers(self._adapter)
        self._put_back()


class _Feeding:
    """Stands in for a train function: hands it the rehearsal's batches, keeps the time, stops the training."""

    def __init__(self, of: Steps, function: Callable[..., Any]) -> None:
        self._of, self._function = of, function
        self._job = of._job
        self._begun = time.monotonic()
        self._first = time.perf_counter_ns()
        self._start: int | None = None
        self._left_out = 0
        self._count = -_WARM
        self._took: float | None = None

    def run(self, *args: Any) -> Any:
        _within(self._begun)
        begun = time.perf_counter_ns()
        try:
            result = self._fed(args)
            self._count += 1
        except _ended():
            self._of.anew()
            try:
                result = self._fed(args)
            except _ended():
                raise CannotRun(_USED_UP, do=_TWICE) from None
            self._of.begun_ns.append(time.perf_counter_ns() - begun)
            self._left_out += self._of.begun_ns[-1]
        now = time.perf_counter_ns()
        if self._start is None:
            if self._count >= 0 and now - self._first > LEAD_SECONDS * 1e9:
                wait_for(self._job.backend, result)
                self._start, self._count, self._left_out = time.perf_counter_ns(), 0, 0
        elif now - self._start - self._left_out > SECONDS * 1e9 and self._count >= _FEWEST:
            wait_for(self._job.backend, result)
            self._took = (time.perf_counter_ns() - self._start - self._left_out) / self._count
            self._job.model.stop_training = True
        return result

    def _fed(self, args: tuple[Any, ...]) -> Any:
        batches = self._of.batches
        if not isinstance(args[-1], list):
            # TensorFlow and JAX pull the batches themselves.
            return self._function(*args[:-1], batches)
        return self._function(*args[:-1], [next(batches) for _ in args[-1]])

    def per_execution(self) -> float:
        if self._took is None:
            raise CannotRun("the block ended before it had begun", do="try it in the script")
        return self._took


def _steps(job: Job, variant: Variant) -> int:
    return variant.steps_per_execution or job.own.steps_per_execution or 1


def _within(begun: float) -> None:
    if time.monotonic() - begun > MOST_SECONDS:
        raise CannotRun("a block of it takes too long", do="try it in the script")


def _ended() -> tuple[type[BaseException], ...]:
    """Return what tells that data has come to its end."""
    tensorflow = sys.modules.get("tensorflow")
    return (StopIteration, tensorflow.errors.OutOfRangeError) if tensorflow is not None else (StopIteration,)


def _replicas() -> int:
    tensorflow = sys.modules.get("tensorflow")
    return int(tensorflow.distribute.get_strategy().num_replicas_in_sync) if tensorflow is not None else 1

"""The user's own training, run again in short blocks with one thing changed.

A block is a short `fit` of the very model on one cached batch: same optimizer, same loop, same callbacks, only without
the wait for data.  It is timed from the end of its first executions to the end of its last, so that what a `fit` costs
as a whole stays out.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab import in_turn
from fitdoctor.probes.drain import waiting

BLOCK_SECONDS = 0.25
BETWEEN_SECONDS = 0.7
"""How long to wait before an epoch is begun: long enough for a machine to take back memory that was given up."""
WARM_EXECUTIONS = 2
"""Executions at the start of a block that are not counted: the loop fills its caches."""
FEWEST, MOST = 3, 400
"""Executions counted in a block."""
LONG_STEP_NS = 300e6
_LEFT_BEHIND = ("history", "stop_training", "_initial_epoch", "_eval_epoch_iterator")
"""What a `fit` leaves on the model."""
_SETTINGS = ("jit_compile", "steps_per_execution", "run_eagerly")
_NAMES = (
    "x", "y", "batch_size", "epochs", "verbose", "callbacks", "validation_split", "validation_data", "shuffle",
    "class_weight", "sample_weight", "initial_epoch", "steps_per_epoch",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variant:
    """What differs from the user's own settings; None: as he has it."""

    jit_compile: bool | None = None
    steps_per_execution: int | None = None
    run_eagerly: bool | None = None
    metrics: bool = True
    callbacks: tuple[int, ...] | None = None
    """Which of the user's callbacks take part, by their place in his list."""
    rows: int | None = None
    """Samples in the batch."""
    sparse: bool = False
    """Class numbers instead of one-hot targets, with the loss that takes them."""
    precision: str | None = None
    """What layers compute in, as a policy of Keras; their weights stay as they are."""
    small: bool = False
    """Inputs of one byte a number instead of four: the values are others, the work of the model is the same."""
    arrays: bool = False
    """The user's own arrays, not the cached batch: what fetching them costs counts too."""
    watched: bool = False
    """A callback that does nothing after every batch takes part."""
    idle: bool = False
    """The train function does nothing and returns what it returned before: what is left is the loop around it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Data that an experiment tried instead of the user's, for the training to be rehearsed on."""

    name: str
    """Of the trial that tells how fast it comes."""
    kind: str
    """The cause it would remove; of several settings the fastest is rehearsed."""
    given: Callable[[bool], dict[str, Any]]
    """Makes what `fit` is given in place of the user's data: for whole epochs, or where False, for steps of one."""
    overlaps: bool = False
    """Its gain shows only beside a step: there is no trial of it alone."""
    end: Callable[[], None] | None = None
    unless: str = ""
    """A cause that it would remove as well: where that is most of the work, what it gives is not its own."""
    last: bool = False
    """Others are rehearsed before it, however fast its data came: it would do away with all that they change."""


AS_IS = Variant()
BARE = Variant(callbacks=())
"""The step alone, without the user's callbacks: what the step is compared with when the step is changed."""


class Job:
    """One call of `fit` that was observed and unwound, ready to be run again in blocks."""

    def __init__(
        self, model: Any, backend: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, step_ns: float = 0.0
    ) -> None:
        self.model = model
        self.backend = backend
        self.given: dict[str, Any] = {**dict(zip(_NAMES, args, strict=False)), **kwargs}
        self.callbacks: tuple[Any, ...] = _callbacks(self.given.get("callbacks"))
        self.own = Variant(
            jit_compile=bool(model.jit_compile),
            steps_per_execution=int(model.steps_per_execution or 1),
            run_eagerly=bool(model.run_eagerly),
        )
        self._metrics = getattr(model, "_compile_metrics", None)
        self._loss = getattr(model, "_compile_loss", None)
        self._sparse_loss: Any = None
        self._sparse_y: Any = None
        self._function = model.train_function
        # The user's own is compiled already.
        self._functions: dict[tuple[Any, ...], Any] = {_key(self.own, True): self._function}
        self._batch: Any = None
        self._executions: dict[Variant, int] = {}
        self._compiling: dict[Variant, float] = {}
        # Of very long steps one is enough: a block must not use up the budget.
        self._fewest, self._warm = (1, 1) if step_ns > LONG_STEP_NS else (FEWEST, WARM_EXECUTIONS)
        self.block_seconds = max(BLOCK_SECONDS, (self._fewest + self._warm) * step_ns / 1e9)
        """About how long a block takes."""
        self.offers: list[Offer] = []
        """What the training could be rehearsed on, by the experiments so far."""
        self.results: dict[str, float] = {}
        """What each trial took, as a share of its baseline; in nanoseconds where it has none."""
        self.restore: Callable[[], None] = lambda: None
        """Puts the model's state back as it was before any experiment."""
        self.until = self.last = float("inf")
        """When, on the monotonic clock, the time of the experiment under way is over, and over at the very last."""

    # --- data -------------------------------------------------------------------------------------

    def loader(self, x: Any = None) -> Iterator[Any]:
        """Begin the user's data anew, or `x` in its place, as the backend's trainer would fetch it."""
        return iter(self._epochs(self._adapter(x))())

    def passes(self, x: Any = None) -> Callable[[], Iterator[Any]]:
        """Return what begins the user's data, or `x` in its place, epoch after epoch.

        Keras makes one adapter for all epochs: making it may convert whole arrays.
        """
        adapter = self._adapter(x)
        if getattr(adapter, "enqueuer", None) is not None:
            # Workers that nobody has ended are still at work on the pass before.
            return lambda: self.loader(x)
        epoch = self._epochs(adapter)
        return lambda: iter(epoch())

    def _epochs(self, adapter: Any) -> Callable[[], Any]:
        """Return what the backend's trainer calls for the batches of an epoch."""
        if self.backend == "tensorflow":
            dataset = adapter.get_tf_dataset()
            return lambda: dataset
        epochs: Callable[[], Any] = adapter.get_jax_iterator if self.backend == "jax" else adapter.get_torch_dataloader
        return epochs

    def beginning(self, *, sparse: bool = False) -> Callable[[], float]:
        """Return what begins an epoch on the user's arrays and returns the nanoseconds until its first batch is there.

        Keras makes its adapter once, but some of them cast or copy whole arrays at the beginning of every epoch.  In
        the run a while passes in between, in which a machine may take back memory that nobody uses: so it does here.
        """
        epoch = self._epochs(self._adapter(y=self._targets(sparse=True)) if sparse else self._adapter())

        def begin() -> float:
            time.sleep(BETWEEN_SECONDS)
            start = time.perf_counter_ns()
            next(iter(epoch()), None)
            return float(time.perf_counter_ns() - start)

        return begin

    def _adapter(self, x: Any = None, **instead: Any) -> Any:
        from keras.src.trainers import data_adapters

        given = {**self.given, **instead, **({} if x is None else {"x": x})}
        given["x"] = in_turn.shared(given.get("x"))
        names = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "class_weight")
        return data_adapters.get_data_adapter(
            **{name: given.get(name) for name in names}, shuffle=given.get("shuffle", True)
        )

    @property
    def batch(self) -> Any:
        """One batch of the user's data, kept."""
        if self._batch is None:
            from keras import ops, tree

            first = next(self.loader(), None)
            if first is None:
                raise CannotRun(
                    "the data is used up: it gave no batch when it was begun anew",
                    do="try it with data that can be read twice",
                )
            kept = tree.map_structure(lambda leaf: leaf if leaf is None else ops.convert_to_numpy(leaf), first)
            # A DataLoader gives lists, which Keras does not take from a generator.
            self._batch = tuple(kept) if isinstance(kept, list) else kept
        return self._batch

    def keep(self, batch: Any) -> None:
        """Train on this batch instead of one of the user's data."""
        self._batch = batch

    @property
    def batch_rows(self) -> int:
        """Samples in a batch."""
        from keras import tree

        return int(next(leaf for leaf in tree.flatten(self.batch) if leaf is not None).shape[0])

    def _rows(self, count: int) -> Any:
        """Make a batch of another size out of the rows of the kept one."""
        import numpy as np
        from keras import tree

        def resize(leaf: Any) -> Any:
            return leaf if leaf is None else np.resize(leaf, (count, *leaf.shape[1:])).astype(leaf.dtype)

        return tree.map_structure(resize, self.batch)

    def _source(self, variant: Variant) -> Any:
        batch = self.batch if variant.rows is None else self._rows(variant.rows)
        if variant.small:
            batch = _in_bytes(batch)
        if variant.sparse:
            batch = (batch[0], batch[1].argmax(axis=-1).astype("int32"), *batch[2:])
        if self.backend == "tensorflow":
            tf = sys.modules["tensorflow"]
            return tf.data.Dataset.from_tensors(batch).repeat()
        # A generator: the only endless source that every backend takes.
        return (batch for _ in itertools.count())

    def _available(self) -> int:
        """Return how many executions the user's arrays are long enough for."""
        found = len(self.given["y"]) // (self.batch_rows * (self.own.steps_per_execution or 1)) - self._warm
        if found < 1:
            raise CannotRun("the arrays are too short for a block", do="try it in the script")
        return found

    def _slices(self, steps: int, *, sparse: bool) -> dict[str, Any]:
        """Take as much of the user's arrays as a block needs."""
        from keras import tree

        count = steps * self.batch_rows
        return {
            "x": tree.map_structure(lambda leaf: leaf[:count], self.given["x"]),
            "y": self._targets(sparse=sparse)[:count],
            "batch_size": self.batch_rows,
            "shuffle": self.given.get("shuffle", True),
        }

    def _targets(self, *, sparse: bool) -> Any:
        """Return the user's array of targets, or the class numbers of its one-hot rows."""
        if sparse and self._sparse_y is None:
            self._sparse_y = self.given["y"].argmax(axis=-1).astype("int32")
        return self._sparse_y if sparse else self.given["y"]

    def _loss_of(self, variant: Variant) -> Any:
        if not variant.sparse:
            return self._loss
        if self._sparse_loss is None:
            self._sparse_loss = _sparse(self.model)
        return self._sparse_loss

    # --- blocks -----------------------------------------------------------------------------------

    def block(self, variant: Variant = AS_IS, seconds: float = BLOCK_SECONDS) -> float:
        """Train a short block and return nanoseconds per optimizer step."""
        if variant not in self._executions:
            # Compiles and warms up, and tells how many executions make a block.
            begin = time.perf_counter()
            self._train(variant, self._fewest)
            compiled = time.perf_counter()
            per_execution = self._train(variant, self._fewest)
            self._compiling[variant] = max(0.0, 2 * compiled - begin - time.perf_counter())
            executions = max(self._fewest, min(MOST, int(seconds * 1e9 / max(1.0, per_execution))))
            self._executions[variant] = min(executions, self._available()) if variant.arrays else executions
        per_row = variant.steps_per_execution or self.own.steps_per_execution or 1
        return self._train(variant, self._executions[variant]) / per_row

    def compiling(self, variant: Variant) -> dict[str, Any]:
        """Return the seconds that the first block of a variant took longer than the next, as detail of a trial."""
        return {"compile_s": self._compiling[variant]} if variant in self._compiling else {}

    def _train(self, variant: Variant, executions: int) -> float:
        """Return nanoseconds per execution."""
        per_row = variant.steps_per_execution or self.own.steps_per_execution or 1
        chosen = range(len(self.callbacks)) if variant.callbacks is None else variant.callbacks
        with self._as(variant) as timer:
            executions += self._warm
            timer.begin(executions, self._warm)
            if variant.arrays:
                data = self._slices(executions * per_row, sparse=variant.sparse)
            else:
                data = {"x": self._source(variant), "steps_per_epoch": executions * per_row}
            watching = [*(self.callbacks[i] for i in chosen), *([_idle_callback()] if variant.watched else [])]
            self.model.fit(**data, epochs=1, verbose=0, callbacks=watching)
        return timer.per_execution()

    @contextlib.contextmanager
    def _as(self, variant: Variant) -> Iterator[_Timer]:
        """Make the model train as the variant says, for a while."""
        model = self.model
        settings = {
            name: getattr(variant, name) if getattr(variant, name) is not None else getattr(self.own, name)
            for name in _SETTINGS
        }
        key = (*settings.values(), variant.metrics, variant.sparse, variant.precision)
        left = {name: vars(model)[name] for name in _LEFT_BEHIND if name in vars(model)}
        policies: list[tuple[Any, Any]] = []
        try:
            for name, value in settings.items():
                setattr(model, name, value)
            _put(model, self._metrics if variant.metrics else None, self._loss_of(variant))
            policies = _set_precision(model, variant.precision)
            if key not in self._functions:
                model.make_train_function(force=True)
                self._functions[key] = model.train_function
            timer = _Timer(self._functions[key], self.backend, idle=variant.idle)
            model.train_function = timer.run
            yield timer
        finally:
            for layer, policy in policies:
                layer.dtype_policy = policy
            for name in settings:
                setattr(model, name, getattr(self.own, name))
            _put(model, self._metrics, self._loss)
            model.train_function = self._function
            for name, value in left.items():
                object.__setattr__(model, name, value)


class _Timer:
    """Stands in for a train function and keeps the times its executions ended."""

    def __init__(self, function: Callable[..., Any], backend: str, *, idle: bool) -> None:
        self.function = function
        self._backend = backend
        self._idle = idle
        self._kept: Any = None
        self._ends: list[int] = []
        self._last = self._warm = 0

    def begin(self, executions: int, warm: int) -> None:
        self._ends, self._last, self._warm = [], executions, warm

    def run(self, *args: Any) -> Any:
        if self._idle and self._ends:
            # JAX hands the state in and out.
            result = (self._kept[0], args[0]) if self._backend == "jax" else self._kept
        else:
            result = self._kept = self.function(*args)
        if len(self._ends) + 1 in (self._warm, self._last):
            wait_for(self._backend, result)
        self._ends.append(time.perf_counter_ns())
        return result

    def per_execution(self) -> float:
        ends = self._ends
        if len(ends) <= self._warm:
            raise CannotRun(
                "the block ended before it had begun: a callback stops the training",
                do="try it in the script without that callback",
            )
        return (ends[-1] - ends[self._warm - 1]) / (len(ends) - self._warm)


def wait_for(backend: str, result: Any) -> None:
    """Wait for work that was only launched: at the two ends of a block."""
    wait = waiting(backend)
    if wait is not None:
        wait(result)


def _in_bytes(batch: Any) -> Any:
    """Return a batch whose inputs take one byte a number."""
    from keras import tree

    def small(leaf: Any) -> Any:
        return leaf.astype("uint8") if leaf is not None and leaf.dtype.kind == "f" else leaf

    if not isinstance(batch, tuple):
        return tree.map_structure(small, batch)
    return (tree.map_structure(small, batch[0]), *batch[1:])


def _put(model: Any, metrics: Any, loss: Any) -> None:
    """Give the model metrics and a loss as `compile` does: an ordinary assignment would track them a second time."""
    object.__setattr__(model, "_compile_metrics", metrics)
    object.__setattr__(model, "_compile_loss", loss)


def _key(variant: Variant, metrics: bool) -> tuple[Any, ...]:
    return (*(getattr(variant, name) for name in _SETTINGS), metrics, False, None)


def _set_precision(model: Any, policy: str | None) -> list[tuple[Any, Any]]:
    """Let every layer in single precision compute as the policy says; return what each had."""
    if policy is None:
        return []
    own = [(layer, layer.dtype_policy) for layer in model._flatten_layers() if layer.dtype_policy.name == "float32"]
    for layer, _ in own:
        layer.dtype_policy = policy
    return own


def _sparse(model: Any) -> Any:
    """Make the loss that takes class numbers where the model's own takes one-hot rows."""
    from keras import losses
    from keras.src.trainers.compile_utils import CompileLoss

    own = model.loss
    if own in ("categorical_crossentropy", losses.categorical_crossentropy):
        made = losses.SparseCategoricalCrossentropy()
    elif type(own) is losses.CategoricalCrossentropy and own.label_smoothing == 0 and own.axis == -1:
        made = losses.SparseCategoricalCrossentropy(from_logits=own.from_logits, reduction=own.reduction)
    else:
        raise CannotRun("its loss has no form that takes class numbers")
    return CompileLoss(made, output_names=getattr(model, "output_names", None))


def _idle_callback() -> Any:
    """Make a callback that does nothing, as a user would: Keras does not know that it may run beside the steps."""
    from keras.callbacks import LambdaCallback

    return LambdaCallback(on_train_batch_end=lambda batch, logs: None)


def _callbacks(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    inner = getattr(given, "callbacks", given)
    several = inner if isinstance(inner, Sequence) else (inner,)
    # One that resumes an interrupted training would resume the one we interrupted.
    return tuple(each for each in several if type(each).__name__ != "BackupAndRestore")

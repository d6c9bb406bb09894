"""`fit`, `evaluate`, `predict` and `*_on_batch` of Keras, on every backend."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

from fitdoctor.probes import account as acc
from fitdoctor.probes import asked, inputs
from fitdoctor.probes.callback_list import CallbackListProbe
from fitdoctor.probes.calls import ActiveCall, CapReached
from fitdoctor.probes.drain import Drainer, light
from fitdoctor.probes.fetch import TimedIterable
from fitdoctor.probes.install import OWN_FOLDER, ImportWatch, Patches, hide, user_site
from fitdoctor.probes.rests import Drawn
from fitdoctor.probes.steps import Tracker

TRAINERS = {"tensorflow": "TensorFlowTrainer", "jax": "JAXTrainer", "torch": "TorchTrainer"}


SMALL_BYTES = 4_000_000
"""An input no larger than this may be kept until the end of a capped run."""


class FitProbe:
    """Hooks on Keras's trainers and on what feeds them."""

    def __init__(self, tracker: Tracker, patches: Patches, finish: Callable[[ActiveCall, Any], None]) -> None:
        self.tracker = tracker
        self.account = tracker.account
        self.recorder = tracker.recorder
        self.patches = patches
        self.finish = finish
        """Called in place of everything that would have followed, once the cap was reached; does not return."""
        self.after_fit: list[Callable[[], None]] = []
        """Called when a `fit` has ended, however it did."""
        self.backend = ""
        self._drainer: Drainer | None = None
        self._drainer_known = False
        self.callbacks = CallbackListProbe(tracker, patches, self._begin_training, self._release)
        self._unclaimed: Any = None
        """The iterator of a `fit` that was called before our hooks were there (see `_begin_training`)."""
        self._adopted: tuple[ActiveCall, int] | None = None
        self._model: Any = None
        """The model that a `fit` trains."""
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Numbers the models that were trained: what is compiled for a new one is compiled for the first time."""
        self._count = itertools.count(1)
        self._unhooked: tuple[Any, Any] | None = None
        """Keras's own train function, as it is called in rests, and ours."""
        tracker.rests.hooks += [patches.rest, self._rest]

    def attach(self, watch: ImportWatch) -> None:
        """Wait for Keras."""
        for backend, name in TRAINERS.items():
            module = f"keras.src.backend.{backend}.trainer"
            watch.when(module, functools.partial(self._trainer, module, backend, name))
        self.callbacks.attach(watch)
        watch.when("keras.src.trainers.epoch_iterator", self._epoch_iterator)
        watch.when("keras.src.utils.traceback_utils", self._tracebacks)

    # --- trainers ---------------------------------------------------------------------------------

    def _trainer(self, module_name: str, backend: str, class_name: str) -> None:
        module = sys.modules[module_name]
        trainer = getattr(module, class_name)
        self.backend = backend
        self.recorder.meta(backend=backend)
        wrap = self.patches.wrap
        wrap(trainer, "fit", self._fit)
        wrap(trainer, "evaluate", self._evaluate)
        wrap(trainer, "predict", self._predict)
        wrap(trainer, "train_on_batch", self._train_on_batch)
        wrap(trainer, "test_on_batch", lambda original: self._short(original, "test_on_batch"))
        wrap(trainer, "predict_on_batch", lambda original: self._short(original, "predict_on_batch"))
        # `train_on_batch` and friends turn results into numbers under this name.
        wrap(module, "pythonify_logs", self.callbacks.sync, every_step=True)

    def _fit(self, original: Any) -> Callable[..., Any]:
        tracker, account = self.tracker, self.account

        def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
            if tracker.fitting is not None or not tracker.claim():
                return original(model, *args, **kwargs)
            depth = account.depth
            call = tracker.begin("fit", user_site(), acc.SETUP)
            if call is None:
                return original(model, *args, **kwargs)
            call.info.update(asked.plan(args, kwargs), backend=self.backend, model=type(model).__name__)
            if tracker.on_step is not None:
                call.arguments = args, kwargs
            try:
                return original(model, *args, **kwargs)
            except CapReached:
                self.callbacks.end(call)
                tracker.end(call, depth)
                self.finish(call, model)
                raise
            except BaseException as error:
                hide(error)
                raise
            finally:
                self.callbacks.end(call)
                if call in tracker.stack:
                    tracker.end(call, depth)
                self._model = self._unhooked = None
                for function in list(self.after_fit):
                    function()

        return fit

    def _evaluate(self, original: Any) -> Callable[..., Any]:
        tracker, account = self.tracker, self.account

        def evaluate(model: Any, *args: Any, **kwargs: Any) -> Any:
            if not tracker.claim():
                return original(model, *args, **kwargs)
            inside = tracker.fitting
            if inside is not None:
                if inside.in_loop and account.top == acc.LOOP:
                    tracker.loop_ended(inside)
                start = account.enter(acc.VALIDATION)
                try:
                    return original(model, *args, **kwargs)
                except BaseException as error:
                    hide(error)
                    raise
                finally:
                    inside.validation_ns += account.leave() - start
            return self._whole(original, model, args, kwargs, "evaluate", acc.VALIDATION)

        return evaluate

    def _predict(self, original: Any) -> Callable[..., Any]:
        tracker = self.tracker

        def predict(model: Any, *args: Any, **kwargs: Any) -> Any:
            if tracker.stack or not tracker.claim():
                return original(model, *args, **kwargs)
            return self._whole(original, model, args, kwargs, "predict", acc.REST)

        return predict

    def _short(self, original: Any, kind: str) -> Callable[..., Any]:
        tracker = self.tracker
        bucket = acc.VALIDATION if kind == "test_on_batch" else acc.REST

        def short(model: Any, *args: Any, **kwargs: Any) -> Any:
            if tracker.stack or not tracker.claim():
                return original(model, *args, **kwargs)
            return self._whole(original, model, args, kwargs, kind, bucket)

        return short

    def _whole(self, original: Any, model: Any, args: Any, kwargs: Any, kind: str, bucket: int) -> Any:
        """Run a call that has no steps of its own to account."""
        tracker = self.tracker
        depth = self.account.depth
        call = tracker.begin(kind, user_site(3), bucket)
        if call is None:
            return original(model, *args, **kwargs)
        call.info.setdefault("backend", self.backend)
        if kind in ("predict", "evaluate"):
            self._note_short(call, model, args, kwargs)
        try:
            result = original(model, *args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        finally:
            tracker.end(call, depth)
        if tracker.on_step is not None:
            tracker.on_step(call)
        return result

    def _note_short(self, call: ActiveCall, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note how many samples a call gets; keep a small input where the lab may make the call again."""
        samples, size = asked.samples(args[0] if args else kwargs.get("x"))
        if samples is None:
            return
        call.info["samples"] = call.info.get("samples", 0) + samples
        place = 1 if call.kind == "predict" else 2
        batch_size = args[place] if len(args) > place else kwargs.get("batch_size")
        call.info["batch_size"] = None if batch_size is None else asked.whole(batch_size, 0)
        if self.tracker.on_step is not None and size <= SMALL_BYTES:
            call.model, call.arguments = model, (args, kwargs)

    def _train_on_batch(self, original: Any) -> Callable[..., Any]:
        tracker, account = self.tracker, self.account

        def train_on_batch(model: Any, *args: Any, **kwargs: Any) -> Any:
            if tracker.stack or not tracker.claim():
                return original(model, *args, **kwargs)
            loop = tracker.loop
            if loop is not None and loop.info.get("marker") == "fitdoctor.steps":
                return original(model, *args, **kwargs)  # the user says himself what a step is
            if loop is None or loop.info.get("marker") != "train_on_batch":
                # The time before the first call is not a step's: the loop begins here.
                loop = tracker.begin_loop(user_site(), "train_on_batch", marker="train_on_batch", backend=self.backend)
                if loop is None:
                    return original(model, *args, **kwargs)
                loop.info.update(asked.of_model(model), compiled=not getattr(model, "run_eagerly", False))
            account.enter(acc.LOOP)
            self._time_train_function(model, loop)
            try:
                result = original(model, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                account.leave()
            self._time_train_function(model, loop)
            tracker.step_done(loop)
            return result

        return train_on_batch

    def _begin_training(self, model: Any) -> ActiveCall | None:
        """Return the `fit` that begins to train.

        In `model.fit(..., callbacks=[fitdoctor.Callback()])` Python looks up `fit` before our hooks are there: such a
        call is adopted here.
        """
        tracker = self.tracker
        call = tracker.fitting
        if call is None:
            if tracker.stack or not tracker.claim():
                return None
            depth = self.account.depth
            call = tracker.begin("fit", user_site(3), acc.SETUP)
            if call is None:
                return None
            call.info.update(backend=self.backend, model=type(model).__name__)
            self._adopted = call, depth
            if self._unclaimed is not None:
                self._describe(call, self._unclaimed)
        call.info.update(asked.of_model(model))
        call.steps_per_row = call.info["steps_per_execution"]
        with contextlib.suppress(TypeError):
            if model not in self._numbers:
                self._numbers[model] = next(self._count)
            call.info["model_number"] = self._numbers[model]
        self._time_train_function(model, call)
        return call

    def _release(self) -> None:
        """End a `fit` that was adopted."""
        adopted, self._adopted = self._adopted, None
        if adopted is not None:
            self.callbacks.end(adopted[0])
            self.tracker.end(*adopted)
            self._model = self._unhooked = None
            for function in list(self.after_fit):
                function()

    # --- the train function -----------------------------------------------------------------------

    def _time_train_function(self, model: Any, call: ActiveCall) -> None:
        function = getattr(model, "train_function", None)
        if function is None:
            return
        if getattr(function, "fitdoctor_probe", None) is not self:
            # New, or left behind by an earlier observation of this process.
            function = self.timed_run(getattr(function, "fitdoctor_original", function))
            model.train_function = function
        warmth = function.fitdoctor_warmth
        call.warmth = warmth
        self._model = model

    def _rest(self, resting: bool) -> None:
        """Let Keras call its own train function, or ours again; where results must be kept, ours stays."""
        # Into the model's own dictionary: Keras's tracking of attributes is not meant for other threads.
        attributes = vars(self._model) if self._model is not None and self._drainer is None else {}
        function: Any = attributes.get("train_function")
        if resting and getattr(function, "fitdoctor_probe", None) is self:
            own = function.fitdoctor_original
            own = getattr(own, "keras_own", own)
            self._unhooked = own, function
            attributes["train_function"] = own
        elif not resting and self._unhooked is not None and function is self._unhooked[0]:
            attributes["train_function"] = self._unhooked[1]

    def timed_run(self, original: Any) -> Any:
        """Wrap a train function so that the time inside it is told from the loop's."""
        tracker, account, recorder = self.tracker, self.account, self.recorder
        if not self._drainer_known:
            # Asked only now: the script may choose its devices until it trains.
            self._drainer, self._drainer_known = Drainer.of(self.backend, tracker), True
        drainer = self._drainer
        if drainer is not None:
            drainer.renew()

        stack, totals, clock = account.stack, account.totals, account.clock
        loop, run = acc.LOOP, acc.RUN

        def train_function(*args: Any) -> Any:
            call = tracker.fitting or tracker.loop
            if tracker.resting and call is not None:
                try:
                    result = original(*args)
                except BaseException as error:
                    hide(error)
                    raise
                if drainer is not None:
                    call.last_result = light(result)
                return result
            if call is None or not call.in_loop or not recorder.live or get_ident() != recorder.owner:
                return original(*args)
            if stack[-1] != loop:
                if stack[-1] != acc.BETWEEN:
                    return original(*args)  # called by a callback, whose time it is
                # The epoch's iterator is made: from here on the loop's own time is the steps'.
                account.switch(loop)
            if drainer is not None:
                drainer.countdown -= 1
                if drainer.countdown <= 0:
                    return drainer.run(original, args, call)
            owned, last = totals[loop], account.last
            start = clock()
            try:
                result = original(*args)
            except BaseException as error:
                hide(error)
                raise
            end = clock()
            if account.last == last and totals[loop] == owned:
                totals[run] += end - start
                totals[loop] -= end - start
            else:
                account.carve(run, start, end, owned, last)
            if drainer is not None:
                call.last_result = light(result)
            return result

        timed: Any = train_function
        timed.fitdoctor_warmth, timed.fitdoctor_probe, timed.fitdoctor_original = [0], self, original
        return timed

    # --- input ------------------------------------------------------------------------------------

    def _epoch_iterator(self) -> None:
        from keras.src.trainers.epoch_iterator import EpochIterator

        self.patches.wrap(EpochIterator, "__init__", self._iterator_made)
        self.patches.wrap(EpochIterator, "_enumerate_iterator", self._enumerate)

    def _iterator_made(self, original: Any) -> Callable[..., Any]:
        tracker = self.tracker

        def __init__(iterator: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(iterator, *args, **kwargs)
            call = tracker.fitting
            if call is None:
                self._unclaimed = iterator
            elif "adapter" not in call.info and self.recorder.mine():
                self._describe(call, iterator)

        return __init__

    def _describe(self, call: ActiveCall, iterator: Any) -> None:
        try:
            call.info.update(inputs.describe(iterator.data_adapter))
            steps = iterator.num_batches
            call.info["steps_per_epoch"] = None if steps is None else int(steps)
        except Exception as error:
            call.info.setdefault("adapter", "other")
            self.recorder.gap("the kind of input", f"{type(error).__name__}: {error}", "please report it")

    def _enumerate(self, original: Any) -> Callable[..., Any]:
        """Time what it takes to make an epoch's iterator, and time the fetches of Python iterators."""
        tracker, account = self.tracker, self.account

        def _enumerate_iterator(iterator: Any) -> Any:
            steps = original(iterator)
            call = tracker.fitting
            if call is None or not call.in_loop or not self.recorder.mine():
                return steps
            if self.backend != "tensorflow" and "_get_iterator" not in vars(iterator):
                make = iterator._get_iterator
                # On the object: gone with it, and nothing else of its class is touched.
                iterator._get_iterator = lambda: TimedIterable(make(), tracker)
            account.enter(acc.BETWEEN)
            try:
                first = next(steps)
            except StopIteration:
                return steps
            finally:
                account.leave()
            call.drawn = Drawn()
            return call.drawn.through(itertools.chain((first,), steps))

        return _enumerate_iterator

    def _tracebacks(self) -> None:
        from keras.src.utils import traceback_utils

        excluded = traceback_utils._EXCLUDED_PATHS
        self.patches.set(traceback_utils, "_EXCLUDED_PATHS", type(excluded)([*excluded, OWN_FOLDER]))

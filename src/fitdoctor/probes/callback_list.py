"""Keras's list of callbacks: where epochs and steps begin and end, and what the callbacks cost, on every backend.

The list's own methods are wrapped; nothing is added to it, so that Keras dispatches as it would without us.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from threading import get_ident
from typing import Any

from fitdoctor.probes import account as acc
from fitdoctor.probes.callbacks import CallbackTimer
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.install import ImportWatch, Patches, hide
from fitdoctor.probes.steps import UNSTEADY_STEPS, Tracker

MOST_EPOCHS = 10_000
"""So many epochs' validation losses are kept."""
_LOSSES = 50
"""Epochs whose losses are kept."""
FIRST = UNSTEADY_STEPS
"""So many steps' losses are kept one by one, of the first training of a run that is cut short.

Reading them waits for the device, which these steps, counted for no time, may.
"""


class CallbackListProbe:
    """Hooks on `keras.callbacks.CallbackList`."""

    def __init__(
        self,
        tracker: Tracker,
        patches: Patches,
        begin: Callable[[Any], ActiveCall | None],
        release: Callable[[], None],
    ) -> None:
        self.tracker = tracker
        self.account = tracker.account
        self.recorder = tracker.recorder
        self.patches = patches
        self._begin = begin
        """Told which model is about to be trained; returns the call that trains it."""
        self._release = release
        """Told that a training has ended."""
        self._timers: dict[int, CallbackTimer] = {}
        self.recorder.on_flush.append(self._save)

    def attach(self, watch: ImportWatch) -> None:
        """Wait for Keras."""
        watch.when("keras.src.callbacks.callback_list", self._wrap)

    def _wrap(self) -> None:
        from keras.src.callbacks.callback_list import CallbackList
        from keras.src.utils import python_utils

        wrap = self.patches.wrap
        wrap(CallbackList, "on_train_begin", self._on_train_begin)
        wrap(CallbackList, "on_epoch_begin", self._on_epoch_begin)
        wrap(CallbackList, "on_epoch_end", self._on_epoch_end)
        wrap(CallbackList, "on_train_end", self._on_train_end)
        wrap(CallbackList, "on_train_batch_end", self.batch_end, every_step=True)
        wrap(python_utils, "pythonify_logs", self.sync, every_step=True)

    def end(self, call: ActiveCall) -> None:
        """Leave the callbacks of a call as they were."""
        timer = self._timers.pop(call.id, None)
        if timer is not None:
            timer.detach()

    def _save(self) -> None:
        for timer in list(self._timers.values()):
            timer.save()

    def _hook(self, original: Any, bucket: int) -> Callable[..., Any]:
        account, recorder = self.account, self.recorder

        def hook(*args: Any, **kwargs: Any) -> Any:
            if not recorder.mine():
                return original(*args, **kwargs)
            account.enter(bucket)
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                account.leave()

        return hook

    def _on_train_begin(self, original: Any) -> Callable[..., Any]:
        tracker, hook = self.tracker, self._hook(original, acc.HOOKS)

        def on_train_begin(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            if self.recorder.live and (tracker.fitting is None or self.recorder.mine()):
                try:
                    self._begin_training(callbacks)
                except Exception as error:
                    self.recorder.fail("callbacks", error)
            return hook(callbacks, *args, **kwargs)

        return on_train_begin

    def _begin_training(self, callbacks: Any) -> None:
        call = self._begin(callbacks.model)
        if call is None:
            return
        call.info["async_callbacks"] = bool(getattr(callbacks, "_async_train", False))
        call.info["async_possible"] = _async_possible()
        call.info["callbacks"] = [type(callback).__name__ for callback in callbacks.callbacks]
        params = getattr(callbacks, "params", None) or {}
        for key, name in (("epochs", "epochs"), ("steps", "steps_per_epoch")):
            if params.get(key) is not None:
                call.info[name] = int(params[key])
        self._timers[call.id] = CallbackTimer(self.recorder, call.id, callbacks.callbacks)
        if self.tracker.on_step is not None and self.tracker.first_step_ns is None:
            call.told = 0
        self.tracker.save(call)

    def _on_train_end(self, original: Any) -> Callable[..., Any]:
        hook = self._hook(original, acc.HOOKS)

        def on_train_end(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            result = hook(callbacks, *args, **kwargs)
            if self.recorder.mine():
                self._release()
            return result

        return on_train_end

    def _on_epoch_begin(self, original: Any) -> Callable[..., Any]:
        tracker, hook = self.tracker, self._hook(original, acc.HOOKS)

        def on_epoch_begin(callbacks: Any, epoch: int, *args: Any, **kwargs: Any) -> Any:
            result = hook(callbacks, epoch, *args, **kwargs)
            call = tracker.fitting
            if call is not None and self.recorder.mine():
                tracker.loop_started(call, epoch)
            return result

        return on_epoch_begin

    def _on_epoch_end(self, original: Any) -> Callable[..., Any]:
        tracker, hook = self.tracker, self._hook(original, acc.HOOKS)

        def on_epoch_end(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            call = tracker.fitting
            if call is None or not self.recorder.mine():
                return hook(callbacks, *args, **kwargs)
            if call.in_loop:
                tracker.loop_ended(call)
            logs = kwargs.get("logs") or (args[1] if len(args) > 1 else None)
            _keep_validation(call, logs)
            _keep_loss(call, logs)
            result = hook(callbacks, *args, **kwargs)
            tracker.epoch_ended(call)
            return result

        return on_epoch_end

    def batch_end(self, original: Any) -> Callable[..., Any]:
        """Count the step.  The callbacks' own time is told by their timers, the results' by `sync`."""
        tracker, recorder = self.tracker, self.recorder

        def on_train_batch_end(callbacks: Any, batch: int, logs: Any = None) -> Any:
            try:
                result = original(callbacks, batch, logs)
            except BaseException as error:
                hide(error)
                raise
            call = tracker.fitting
            if call is not None and call.in_loop and recorder.live and get_ident() == recorder.owner:
                if call.told < FIRST and call.warmth[0] < FIRST:
                    _keep_first(call, logs)
                tracker.step_done(call)
            return result

        return on_train_batch_end

    def sync(self, original: Any) -> Callable[..., Any]:
        """Wrap the function that turns results into Python numbers: on the training thread it waits for them."""
        tracker, account, recorder = self.tracker, self.account, self.recorder

        def pythonify_logs(logs: Any) -> Any:
            if not logs or not recorder.live or get_ident() != recorder.owner:
                return original(logs)
            call = tracker.fitting or tracker.loop
            if call is None or not call.in_loop:
                return original(logs)
            account.enter(acc.SYNC)
            try:
                return original(logs)
            finally:
                account.leave()

        return pythonify_logs


def _async_possible() -> bool | None:
    """Tell whether Keras would run callbacks beside the steps on this backend, if all of them allow it."""
    backend: Any = sys.modules.get("keras.src.backend")
    safe = getattr(backend, "IS_THREAD_SAFE", None)
    return None if safe is None else bool(safe)


def _keep_loss(call: ActiveCall, logs: Any) -> None:
    """Keep what the epoch came to: two versions of a training are compared by it."""
    loss = logs.get("loss") if isinstance(logs, dict) else None
    if loss is None:
        return
    # The device has just been waited for: reading a number from it takes no longer than that.
    with contextlib.suppress(Exception):
        losses = call.info.setdefault("losses", [])
        losses.append([call.epoch, float(loss)])
        del losses[:-_LOSSES]


def _keep_first(call: ActiveCall, logs: Any) -> None:
    """Keep what one of the first steps came to: with the same weights, another loss is that of other data.

    Counted by ourselves: of several steps at a time some versions of Keras tell the first, others the last.
    """
    call.told += 1
    with contextlib.suppress(Exception):
        step = call.step + call.steps_per_row
        call.info.setdefault("first_losses", []).append([call.epoch, step, float(logs["loss"])])


def _keep_validation(call: ActiveCall, logs: Any) -> None:
    """Keep the validation loss of an epoch: it tells whether the later ones were worth their time."""
    value = logs.get("val_loss") if isinstance(logs, dict) else None
    if isinstance(value, float):
        curve: list[float] = call.info.setdefault("validation", [])
        if len(curve) < MOST_EPOCHS:
            curve.append(value)

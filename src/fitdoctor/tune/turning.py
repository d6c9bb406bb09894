"""Gives a training other settings than its script does: runs in the observed process, before the script's first line.

Whatever a user would write is done as he would write it: an argument of `compile` or `fit`, a last operator of the
pipeline, workers of the loader, the policy right after Keras was imported.  The backend is in the environment.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any, cast

from fitdoctor.probes.fit import TRAINERS
from fitdoctor.probes.install import ImportWatch, Patches, hide
from fitdoctor.rewrites.loader_copies import is_dataloader, is_pydataset, with_processes
from fitdoctor.tune import batches
from fitdoctor.tune.settings import Settings


def install(given: Mapping[str, Any], watch: ImportWatch, patches: Patches) -> None:
    """Wait for Keras."""
    settings = Settings.of(given)
    turner = Turner(settings, patches)
    if settings.precision is not None:
        watch.when("keras", turner.precision)
    if settings.steps_per_execution is not None or settings.jit_compile is not None:
        watch.when("keras.src.trainers.trainer", turner.compiled)
    if settings.workers is not None or settings.prefetch or settings.batch_size is not None:
        for backend, name in TRAINERS.items():
            module = f"keras.src.backend.{backend}.trainer"
            watch.when(module, functools.partial(turner.fitted, module, name))


class Turner:
    """Hooks on `compile` and `fit`."""

    def __init__(self, settings: Settings, patches: Patches) -> None:
        self._settings = settings
        self._patches = patches
        self._scaled: weakref.WeakSet[Any] = weakref.WeakSet()

    def precision(self) -> None:
        """Choose what layers made from now on compute in; a script that chooses itself does so later."""
        sys.modules["keras"].config.set_dtype_policy(self._settings.precision)

    def compiled(self) -> None:
        """Hook `compile`."""
        self._patches.wrap(sys.modules["keras.src.trainers.trainer"].Trainer, "compile", self._compile)

    def _compile(self, original: Any) -> Callable[..., Any]:
        names = ("steps_per_execution", "jit_compile")
        given = {name: value for name in names if (value := getattr(self._settings, name)) is not None}

        def change(model: Any, arguments: dict[str, Any]) -> None:
            arguments.update(given)

        return _with_arguments(original, change)

    def fitted(self, module: str, name: str) -> None:
        """Hook `fit`."""
        self._patches.wrap(getattr(sys.modules[module], name), "fit", lambda original: self._fit(original))

    def _fit(self, original: Any) -> Callable[..., Any]:
        return _with_arguments(original, self._data)

    def _data(self, model: Any, arguments: dict[str, Any]) -> None:
        settings, data = self._settings, cast("Any", arguments.get("x"))
        if settings.workers is not None:
            if is_pydataset(data):
                data.workers = settings.workers
            elif is_dataloader(data):
                arguments["x"] = with_processes(data, settings.workers, keep=True)
        if settings.batch_size is not None:
            own = batches.change(arguments, settings.batch_size)
            if own is not None:
                self._scale(model, settings.batch_size / own)
        if settings.prefetch:
            arguments["x"] = batches.prefetched(arguments.get("x"))

    def _scale(self, model: Any, factor: float) -> None:
        """Let the learning rate grow as the batches do."""
        optimizer = getattr(model, "optimizer", None)
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        if optimizer is None or optimizer in self._scaled:
            return
        self._scaled.add(optimizer)
        before = float(optimizer.learning_rate)
        optimizer.learning_rate = before * factor
        self._patches.recorder.meta(turned={"learning_rate": [before, before * factor]})


def _with_arguments(original: Any, change: Callable[[Any, dict[str, Any]], None]) -> Callable[..., Any]:
    """Wrap a method so that its arguments, by name, are changed first."""
    signature = inspect.signature(original)

    def method(model: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(model, *args, **kwargs)
        except TypeError:
            return original(model, *args, **kwargs)  # which says what is wrong with them
        change(model, bound.arguments)
        try:
            return original(*bound.args, **bound.kwargs)
        except BaseException as error:
            hide(error)
            raise

    return method

"""Time spent saving models, weights and checkpoints, wherever it is called from."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from fitdoctor.probes import account as acc
from fitdoctor.probes.install import ImportWatch, Patches, hide
from fitdoctor.probes.steps import Tracker

_SAVERS = {
    "keras.src.saving.saving_api": ("save_model", "save_weights"),
    "keras.src.saving.saving_lib": ("save_model", "save_weights_only"),
    "keras.src.export.saved_model": ("export_saved_model",),
    "tensorflow.python.saved_model.save": ("save",),
    "torch.serialization": ("save",),
}


class SavingProbe:
    """Hooks on the functions that every way of saving goes through."""

    def __init__(self, tracker: Tracker, patches: Patches) -> None:
        self.account = tracker.account
        self.recorder = tracker.recorder
        self.patches = patches

    def attach(self, watch: ImportWatch) -> None:
        """Wait for the modules that save."""
        for module in _SAVERS:
            watch.when(module, functools.partial(self._module, module))

    def _module(self, name: str) -> None:
        module = sys.modules[name]
        for function in _SAVERS[name]:
            if hasattr(module, function):
                self.patches.wrap(module, function, self._timed)

    def _timed(self, original: Any) -> Callable[..., Any]:
        account, recorder = self.account, self.recorder

        def save(*args: Any, **kwargs: Any) -> Any:
            if not recorder.mine():
                return original(*args, **kwargs)
            account.enter(acc.SAVING)
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                account.leave()

        return save

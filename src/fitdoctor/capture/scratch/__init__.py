"""Keep a capped run's hands off the user's files: what the script saves goes to a scratch folder instead.

    scratch = Scratch(root, in_training)
    scratch.install()                  # in the training process, before the script
    scratch.applied("keras.src...")    # after the import of each module in WATCHED
    cleanup(root)                      # in the parent, when the training process is gone

Redirected: all that Keras, TensorFlow, PyTorch, JAX, HDF5 and Orbax save; every file Python writes during or
after training; every change to a file that was there before the run.  Real: new files and folders the script
makes before its first training (data it prepares), and whatever it does with those later.  Readers see the
scratch version.  It lies on the same file system as the original, so that saving costs what it costs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fitdoctor.capture.scratch import hooks
from fitdoctor.capture.scratch.frameworks import WATCHED, Frameworks
from fitdoctor.capture.scratch.journal import cleanup
from fitdoctor.capture.scratch.overlay import Overlay
from fitdoctor.capture.scratch.patches import Patches
from fitdoctor.model import Gap

__all__ = ["WATCHED", "Scratch", "cleanup"]


class Scratch:
    """The redirection of one run.  `root` is a folder of its own; `keep` are more paths to leave alone."""

    def __init__(self, root: Path, in_training: Callable[[], bool], keep: Iterable[Path | str] = ()) -> None:
        self._files = Overlay(root, in_training, keep)
        self._patches = Patches()
        self._frameworks = Frameworks(self._files, self._patches)

    def install(self) -> None:
        """Redirect from now on."""
        hooks.install(self._files, self._patches)
        self._patches.put(sys, "dont_write_bytecode", True)
        self._frameworks.apply_all()

    def uninstall(self) -> None:
        """Put every replaced function back; functions a script still holds become plain ones."""
        self._files.on = False
        self._patches.undo()

    def applied(self, module_name: str) -> None:
        """Hook what a module of WATCHED saves; to be called when its import has finished."""
        self._frameworks.apply(module_name)

    def training_began(self) -> None:
        """Tell that the first training has begun: what the script writes from now on are results."""
        self._files.trained = True

    def redirect(self, path: str | bytes | os.PathLike[str]) -> str:
        """Return where writes to a path go."""
        return self._files.forced(path)

    def resolve(self, path: str | bytes | os.PathLike[str]) -> str:
        """Return what a reader of a path must open: nothing is there if the script has removed it."""
        return self._files.actual(self._files.logical(path))

    def files(self) -> list[dict[str, Any]]:
        """List what was redirected: `path` as the script knows it, and `bytes`."""
        return self._files.found()

    @property
    def gaps(self) -> list[Gap]:
        """What could not be redirected as it should."""
        return self._files.gaps

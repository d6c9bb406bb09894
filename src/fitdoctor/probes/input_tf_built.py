"""Where each operator of a tf.data pipeline was built: every dataset keeps the line of the user's that made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fitdoctor.model import Site
from fitdoctor.probes.install import ImportWatch, Patches, user_site
from fitdoctor.probes.recorder import Recorder

BUILT = "_fitdoctor_built"
"""Attribute of a dataset: the `Site`."""


class BuiltProbe:
    """Hook on the constructor that all datasets share."""

    def __init__(self, recorder: Recorder, patches: Patches) -> None:
        self._recorder = recorder
        self._patches = patches

    def attach(self, watch: ImportWatch) -> None:
        """Wait for TensorFlow."""
        watch.when("tensorflow.python.data.ops.dataset_ops", self._wrap)

    def _wrap(self) -> None:
        from tensorflow.python.data.ops.dataset_ops import DatasetV2

        self._patches.wrap(DatasetV2, "__init__", self._made)

    def _made(self, original: Any) -> Callable[..., Any]:
        recorder = self._recorder

        def __init__(dataset: Any, variant_tensor: Any) -> None:  # noqa: N807
            original(dataset, variant_tensor)
            if recorder.live:
                vars(dataset)[BUILT] = user_site()

        return __init__


def built(dataset: Any) -> Site | None:
    """Return the user's line that made a dataset, where it was seen."""
    site: Site | None = vars(dataset).get(BUILT)
    return site

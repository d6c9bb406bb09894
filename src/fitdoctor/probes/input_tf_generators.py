"""Python generators inside tf.data pipelines: each dataset keeps the generator it was made from, for the lab."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from fitdoctor.probes.install import ImportWatch, Patches
from fitdoctor.probes.recorder import Recorder

KEPT = "_fitdoctor_generator"
"""Attribute of a dataset: the user's function and its arguments."""


class GeneratorProbe:
    """Hook on `tf.data.Dataset.from_generator`."""

    def __init__(self, recorder: Recorder, patches: Patches) -> None:
        self._recorder = recorder
        self._patches = patches

    def attach(self, watch: ImportWatch) -> None:
        """Wait for TensorFlow."""
        watch.when("tensorflow.python.data.ops.from_generator_op", self._wrap)

    def _wrap(self) -> None:
        module = sys.modules["tensorflow.python.data.ops.from_generator_op"]
        self._patches.wrap(module, "_from_generator", self._made)

    def _made(self, original: Any) -> Callable[..., Any]:
        def _from_generator(generator: Any, output_types: Any, output_shapes: Any, args: Any, *rest: Any) -> Any:
            dataset = original(generator, output_types, output_shapes, args, *rest)
            if self._recorder.live:
                setattr(dataset, KEPT, (generator, tuple(args) if args is not None else ()))
            return dataset

        return _from_generator

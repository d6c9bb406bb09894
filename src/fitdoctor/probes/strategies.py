"""Steps that a distribution strategy of TensorFlow runs from plain Python.

The replicas' functions run on threads of their own, where an update of weights is not the training thread's: the call
of `strategy.run` in which one happened is the mark of a step.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from fitdoctor.probes.install import ImportWatch, Patches, hide, user_site
from fitdoctor.probes.loops import LoopProbe
from fitdoctor.probes.steps import Tracker


class StrategyProbe:
    """A hook on `tf.distribute.Strategy.run`."""

    def __init__(self, tracker: Tracker, patches: Patches, loops: LoopProbe) -> None:
        self.tracker = tracker
        self.patches = patches
        self.loops = loops

    def attach(self, watch: ImportWatch) -> None:
        """Wait for TensorFlow's strategies."""
        watch.when("tensorflow.python.distribute.distribute_lib", self._wrap)

    def _wrap(self) -> None:
        module = sys.modules["tensorflow.python.distribute.distribute_lib"]
        self.patches.wrap(module.StrategyBase, "run", self._run)

    def _run(self, original: Any) -> Callable[..., Any]:
        tracker, loops = self.tracker, self.loops
        context = sys.modules["tensorflow.python.eager.context"]

        def run(strategy: Any, *args: Any, **kwargs: Any) -> Any:
            if tracker.stack or not tracker.recorder.mine() or not context.executing_eagerly():
                return original(strategy, *args, **kwargs)
            applied = loops.applied
            try:
                with loops.elsewhere():
                    result = original(strategy, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            if loops.applied != applied:
                replicas = int(strategy.num_replicas_in_sync)
                given = functools.partial(original, strategy), args, kwargs
                loops.mark_call(
                    given, "strategy.run", user_site(), compiled=False, backend="tensorflow", replicas=replicas
                )
            return result

        return run

"""tf.data: the wait for a batch inside the compiled step, Python in the pipeline, and what the pipeline is.

On the TensorFlow backend the compiled train function fetches the batch itself, so nothing outside can tell waiting from
computing.  We therefore keep a twin of the train function with clocks in its graph: a timestamp before and one after
`get_next`, one after the step, their differences added to a variable that is read now and then.

The twin calls the very function on one batch that Keras's own train function calls, so the user's code is traced as
often as without us and the step computes the same numbers.  Its few extra ops cost some 30 µs a step; so a run that is
observed as a whole uses it in bursts only, and Keras's own function in between.  Under op determinism TensorFlow
refuses to read a clock in a graph: then only Keras's own runs.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from fitdoctor.probes import account as acc
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.dataset_tf import describe_dataset
from fitdoctor.probes.inputs import batch_size
from fitdoctor.probes.install import ImportWatch, Patches, code_site, hide
from fitdoctor.probes.steps import Tracker

READ_EVERY_NS = 100_000_000
"""Reading the clocks costs about a tenth of a millisecond."""
EARLY_READS = 40
"""After so many readings the clocks run in bursts."""
BURST_STEPS = 16
BURST_NS = 20_000_000
BURST_EVERY_NS = 2_000_000_000


class _Making(threading.local):
    """What is being built or run on this thread."""

    clocks: GraphClocks | None = None


class GraphClocks:
    """Clocks inside one compiled train function: seconds waited, fetches, seconds computed, steps."""

    def __init__(self) -> None:
        self._variable: Any = None
        self.fetched: tuple[Any, Any] | None = None
        """Timestamps around the fetch whose step is being traced."""
        self.one_step: Any = None
        """What the train function does with one batch: traced once, used by Keras's own and by its twin."""

    @property
    def new(self) -> bool:
        """Tell whether they have never run."""
        return self._variable is None

    def variable(self) -> Any:
        """Return the variable, made outside of the graph that is being traced."""
        if self._variable is None:
            tf = sys.modules["tensorflow"]
            with tf.init_scope(), tf.device("CPU:0"):
                self._variable = tf.Variable([0.0] * 4, dtype=tf.float64, trainable=False, name="fitdoctor_clocks")
        return self._variable

    def read(self) -> tuple[float, float, float, float] | None:
        """Return seconds waited, fetches, seconds computed, steps; None before the first trace."""
        if self._variable is None:
            return None
        wait, fetches, compute, steps = self._variable.numpy().tolist()
        return wait, fetches, compute, steps


class TensorFlowInput:
    """Hooks on TensorFlow's iterators, on Keras's TensorFlow trainer and on Python functions in pipelines."""

    current: TensorFlowInput | None = None
    """The one of the newest observation."""

    def __init__(self, tracker: Tracker, patches: Patches) -> None:
        TensorFlowInput.current = self
        self.tracker = tracker
        self.account = tracker.account
        self.recorder = tracker.recorder
        self.patches = patches
        self._making = _Making()
        self._clocks: GraphClocks | None = None
        """Of the train function that ran last."""
        self._reads = 0
        self._pyfuncs: dict[Any, list[Any]] = {}
        self.bursting = False
        """Whether the twin with the clocks runs in place of Keras's own train function."""
        self._burst = (0, 0, 0)
        tracker.looks.append(self._look)
        self.recorder.on_flush.append(self._save_pyfuncs)

    def attach(self, watch: ImportWatch) -> None:
        """Wait for TensorFlow."""
        watch.when("tensorflow.python.data.ops.iterator_ops", self._iterators)
        watch.when("tensorflow.python.ops.script_ops", self._python_functions)
        watch.when("keras.src.backend.tensorflow.trainer", self._trainer)

    def detach(self) -> None:
        """Leave train functions that were made under observation to themselves."""
        if TensorFlowInput.current is self:
            TensorFlowInput.current = None

    # --- clocks in the graph ----------------------------------------------------------------------

    def _trainer(self) -> None:
        from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

        self.patches.wrap(TensorFlowTrainer, "_make_function", self._make_function)
        self.patches.wrap(TensorFlowTrainer, "_autoconvert_optionals", self._one_step)

    def _make_function(self, original: Any) -> Callable[..., Any]:
        making, recorder = self._making, self.recorder

        def _make_function(trainer: Any, step_function: Any) -> Any:
            if not recorder.live or getattr(step_function, "__name__", "") != "train_step":
                return original(trainer, step_function)
            making.clocks = clocks = GraphClocks()
            try:
                function = original(trainer, step_function)
                # Made by Keras a second time, around the same function on one batch (see `_one_step`).
                twin = None if trainer.run_eagerly else original(trainer, step_function)
            finally:
                making.clocks = None

            def train_function(iterator: Any) -> Any:
                # A later observation of this process finds the function, and its clocks, as they are.
                probe = TensorFlowInput.current
                if probe is None or not probe.recorder.live:
                    return function(iterator)
                if probe._clocks is not clocks:
                    probe._adopt(clocks)
                try:
                    if not probe.bursting or twin is None or _refuses_clocks():
                        return function(iterator)
                    return probe._run_twin(twin, iterator, clocks)
                except BaseException as error:
                    hide(error)
                    raise

            # What runs whenever the clocks do not.
            train_function.keras_own = function  # type: ignore[attr-defined]
            return train_function

        return _make_function

    def _adopt(self, clocks: GraphClocks) -> None:
        """Begin with a train function: its first execution is Keras's own, then the clocks run."""
        self._clocks = clocks
        self._reads = 0
        self.bursting = False
        self.tracker.look_now()

    def _run_twin(self, twin: Any, iterator: Any, clocks: GraphClocks) -> Any:
        making = self._making
        making.clocks = clocks
        if clocks.new:
            self.tracker.look_now()
        try:
            return twin(iterator)
        finally:
            making.clocks = None

    def _one_step(self, original: Any) -> Callable[..., Any]:
        """Give Keras's own train function and its twin the same step on one batch, the twin's with clocks."""
        making, recorder = self._making, self.recorder

        def _autoconvert_optionals(trainer: Any, step_func: Any) -> Any:
            clocks = making.clocks
            if clocks is None:
                return original(trainer, step_func)
            if clocks.one_step is None:
                clocks.one_step = original(trainer, step_func)
            one_step = clocks.one_step

            def timed(data: Any) -> Any:
                tf = sys.modules["tensorflow"]
                if not recorder.live or making.clocks is not clocks or tf.executing_eagerly():
                    return one_step(data)
                fetched, clocks.fetched = clocks.fetched, None
                if fetched is not None and fetched[0].graph is not tf.compat.v1.get_default_graph():
                    fetched = None
                if fetched is None:
                    with tf.control_dependencies(_ops(data)):
                        before = tf.timestamp()
                    waited, fetches = _zero(), _zero()
                else:
                    start, before = fetched
                    waited, fetches = before - start, _one()
                outputs = one_step(data)
                with tf.control_dependencies(_ops(outputs)):
                    spent = tf.timestamp() - before
                clocks.variable().assign_add(tf.stack([waited, fetches, spent, _one()]), read_value=False)
                return outputs

            return timed

        return _autoconvert_optionals

    def _iterators(self) -> None:
        from tensorflow.python.data.ops import iterator_ops

        wrap = self.patches.wrap
        wrap(iterator_ops.OwnedIterator, "_next_internal", lambda original: self._fetch(original, optional=False))
        wrap(iterator_ops.OwnedIterator, "get_next_as_optional", lambda original: self._fetch(original, optional=True))

    def _fetch(self, original: Any, optional: bool) -> Callable[..., Any]:
        tracker, account, recorder, making = self.tracker, self.account, self.recorder, self._making
        context = sys.modules["tensorflow.python.eager.context"]

        def fetch(iterator: Any) -> Any:
            if context.executing_eagerly():
                call = tracker.current
                if call is None or not call.in_loop or not recorder.mine() or account.top == acc.FETCH:
                    return original(iterator)
                account.enter(acc.FETCH)
                try:
                    return original(iterator)
                except BaseException as error:
                    hide(error)
                    raise
                finally:
                    account.leave()
            clocks = making.clocks
            if clocks is None or not recorder.live:
                return original(iterator)
            return self._timed_fetch(original, iterator, clocks, optional)

        return fetch

    def _timed_fetch(self, original: Any, iterator: Any, clocks: GraphClocks, optional: bool) -> Any:
        tf = sys.modules["tensorflow"]
        start = tf.timestamp()
        with tf.control_dependencies([start.op]):
            data = original(iterator)
        with tf.control_dependencies(_ops(data)):
            after = tf.timestamp()
        if optional:
            # Several steps per execution: the step is traced in another graph, or may not follow at all.
            clocks.variable().assign_add(tf.stack([after - start, _one(), _zero(), _zero()]), read_value=False)
        else:
            clocks.fetched = (start, after)
        return data

    def _look(self, call: ActiveCall) -> float:
        """Read the clocks between two steps, now and then; returns when to come again."""
        now = self.recorder.clock()
        always = self._reads < EARLY_READS or self.tracker.on_step is not None
        if self._clocks is None:
            return math.inf
        if self.bursting and not always and not self._burst_done(call, now):
            return now
        self._reads += 1
        self.read(call)
        if always:
            self.bursting = True
            return now + READ_EVERY_NS
        self.bursting = not self.bursting
        if self.bursting:
            self._burst = call.id, call.step, now
            return now + BURST_NS
        return max(now, self._burst[2] + BURST_EVERY_NS)

    def _burst_done(self, call: ActiveCall, now: int) -> bool:
        call_id, step, start = self._burst
        return call.id != call_id or (call.step - step >= BURST_STEPS and now - start >= BURST_NS)

    def read(self, call: ActiveCall) -> None:
        """Read the clocks now."""
        clocks = self._clocks
        if clocks is None:
            return
        self.account.enter(acc.OWN)
        try:
            seen = clocks.read()
        finally:
            self.account.leave()
        if seen is not None:
            wait, _, compute, steps = seen
            row = (call.id, call.step, round(steps), int(wait * 1e9), int(compute * 1e9), time.thread_time_ns())
            self.recorder.add("inside", row)

    # --- Python in the pipeline -------------------------------------------------------------------

    def _python_functions(self) -> None:
        from tensorflow.python.ops import script_ops

        self.patches.wrap(script_ops.FuncRegistry, "__call__", self._python_call)

    def _python_call(self, original: Any) -> Callable[..., Any]:
        recorder, totals = self.recorder, self._pyfuncs
        wall, cpu = time.perf_counter_ns, time.thread_time_ns

        def __call__(registry: Any, token: Any, device: Any, args: Any) -> Any:  # noqa: N807
            if not recorder.live:
                return original(registry, token, device, args)
            start, start_cpu = wall(), cpu()
            try:
                return original(registry, token, device, args)
            finally:
                entry = totals.get(token)
                if entry is None:
                    entry = totals[token] = [_function_of(registry, token), 0, 0, 0]
                entry[1] += 1
                entry[2] += wall() - start
                entry[3] += cpu() - start_cpu

        return __call__

    def _save_pyfuncs(self) -> None:
        merged: dict[tuple[Any, ...], list[int]] = {}
        for (name, kind, path, line), count, wall_ns, cpu_ns in list(self._pyfuncs.values()):
            entry = merged.setdefault((name, kind, path, line), [0, 0, 0])
            entry[0] += count
            entry[1] += wall_ns
            entry[2] += cpu_ns
        for key, entry in merged.items():
            self.recorder.put("pyfuncs", key, (*key, *entry))


def _refuses_clocks() -> bool:
    """Tell whether TensorFlow was told to give the same results always; takes a tenth of a microsecond."""
    return bool(sys.modules["tensorflow.python.framework.config"].is_op_determinism_enabled())


def _ops(structure: Any) -> list[Any]:
    tf = sys.modules["tensorflow"]
    return [t.op for t in tf.nest.flatten(structure, expand_composites=True) if hasattr(t, "op")]


def _zero() -> Any:
    return sys.modules["tensorflow"].constant(0.0, "float64")


def _one() -> Any:
    return sys.modules["tensorflow"].constant(1.0, "float64")


def _function_of(registry: Any, token: Any) -> tuple[str, str, str | None, int | None]:
    """Name a registered Python function and where the user wrote it."""
    function = registry.get(token)
    eager = type(function).__name__ == "EagerFunc"
    if eager:
        function = getattr(function, "_func", function)
    name = getattr(function, "__qualname__", type(function).__name__)
    kind = "py_function" if eager else "numpy_function"
    if "generator" in name or "from_generator" in getattr(getattr(function, "__code__", None), "co_filename", ""):
        kind = "generator"
    site = code_site(function)
    return name, kind, site.path if site else "", site.line if site else 0


# --- what the pipeline is ----------------------------------------------------------------------------


def describe(adapter: Any) -> dict[str, Any]:
    """Tell the operators of the user's dataset, outermost first, and the options that matter for speed."""
    dataset = adapter._dataset
    return {"adapter": "tf.data", "batch_size": batch_size(adapter), **describe_dataset(dataset)}

"""Traces and compilations, per backend: when, of what, how long."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from fitdoctor.probes import account as acc
from fitdoctor.probes.install import ImportWatch, Patches, code_site, hide
from fitdoctor.probes.steps import Tracker

_JAX_EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
KEPT_ROWS = 20_000
_FRAME, _TRAINER = "multi_step_on_iterator", "keras.src.backend.tensorflow.trainer"


class CompileProbe:
    """Hooks on tf.function's tracing, JAX's own monitoring and torch.compile's callbacks."""

    def __init__(self, tracker: Tracker, patches: Patches) -> None:
        self.tracker = tracker
        self.recorder = tracker.recorder
        self.account = tracker.account
        self.patches = patches
        self._moved: list[tuple[int, int]] = []
        self._rows = 0
        self._tracing = self._traces_inside = 0
        self._dynamo_start = 0

    def attach(self, watch: ImportWatch) -> None:
        """Wait for the frameworks."""
        watch.when("tensorflow.python.eager.polymorphic_function.tracing_compilation", self._tensorflow)
        watch.when("jax", self._jax)
        watch.when("torch._dynamo", self._dynamo)

    def _row(self, kind: str, name: str, start_ns: int, took_ns: int, site: Any, **detail: Any) -> None:
        self.tracker.compiled()
        self._rows += 1
        if self._rows > KEPT_ROWS:
            return
        call = self.tracker.current
        row = (call and call.id, kind, name[:200], start_ns, took_ns, site and site.path, site and site.line)
        self.recorder.add("compiles", (*row, json.dumps(detail, default=str)))

    # --- TensorFlow -------------------------------------------------------------------------------

    def _tensorflow(self) -> None:
        module = sys.modules["tensorflow.python.eager.polymorphic_function.tracing_compilation"]
        self.patches.wrap(module, "_create_concrete_function", self._trace)

    def _trace(self, original: Any) -> Callable[..., Any]:
        account, recorder = self.account, self.recorder

        def _create_concrete_function(function_type: Any, type_context: Any, func_graph: Any, options: Any) -> Any:
            if not recorder.mine():
                return original(function_type, type_context, func_graph, options)
            start = account.enter(acc.COMPILING)
            self._traces_inside = self._traces_inside + 1 if self._tracing else 0
            self._tracing += 1
            try:
                return original(function_type, type_context, func_graph, options)
            except BaseException as error:
                hide(error)
                raise
            finally:
                self._tracing -= 1
                took = account.leave() - start
                if self._tracing == 0:
                    self._traced(options, function_type, start, took)

        return _create_concrete_function

    def _traced(self, options: Any, function_type: Any, start_ns: int, took_ns: int) -> None:
        function = getattr(options, "python_function", None)
        name = str(getattr(options, "name", None) or getattr(function, "__name__", "function"))
        if not self._traces_inside and name == _FRAME and getattr(function, "__module__", "") == _TRAINER:
            # Only Keras's frame around a step that was traced before, for the twin of `input_tf`.
            self.tracker.compiled()
            return
        self._row("trace", name, start_ns, took_ns, code_site(function), type=str(function_type)[:500])

    # --- JAX --------------------------------------------------------------------------------------

    def _jax(self) -> None:
        import jax.monitoring

        jax.monitoring.register_event_duration_secs_listener(self._jax_event)

    def _jax_event(self, event: str, duration: float, **detail: Any) -> None:
        kind = _JAX_EVENTS.get(event)
        if kind is None or not self.recorder.mine():
            return
        end = self.account.settle()
        start = end - int(duration * 1e9)
        # Inner functions report before the outer one that holds them: hand over only what is new.
        inner = sum(e - max(s, start) for s, e in self._moved if e > start)
        self._moved = [*[(s, e) for s, e in self._moved if e <= start][-64:], (start, end)]
        self.account.move(acc.COMPILING, max(0, end - start - inner))
        self._row(kind, str(detail.get("fun_name", "")), start, end - start, None)

    # --- torch ------------------------------------------------------------------------------------

    def _dynamo(self) -> None:
        from torch._dynamo.callback import callback_handler

        callback_handler.register_start_callback(self._dynamo_started)
        callback_handler.register_end_callback(self._dynamo_ended)

    def _dynamo_started(self, *_: Any) -> None:
        self._dynamo_start = self.recorder.clock()

    def _dynamo_ended(self, *_: Any) -> None:
        if not self.recorder.mine():
            return
        start, end = self._dynamo_start, self.account.settle()
        self.account.move(acc.COMPILING, end - start)
        self._row("compile", "torch.compile", start, end - start, None)

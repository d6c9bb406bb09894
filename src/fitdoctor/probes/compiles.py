"""Traces and compilations, per backend: when, of what, how long, from which line, and what was new about it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from fitdoctor.model import Site
from fitdoctor.probes import account as acc
from fitdoctor.probes import traced
from fitdoctor.probes.install import ImportWatch, Patches, code_site, hide, user_site
from fitdoctor.probes.steps import Tracker

_JAX_EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
KEPT_ROWS = 20_000
_KEPT_SHAPES = 256
_WRAPPERS = 10
"""Nobody wraps a function in more than these."""
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
        self._tracing = self._traces_inside = self._operations = 0
        self._compiled: dict[str, list[traced.Described]] = {}
        """What each jitted function, by its name and line, was compiled with; the newest last."""
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
            outermost = not self._tracing
            line = user_site() if outermost else None
            if outermost:
                self._operations = 0
            self._tracing += 1
            try:
                made = original(function_type, type_context, func_graph, options)
                self._operations += _size(made)
                return made
            except BaseException as error:
                hide(error)
                raise
            finally:
                self._tracing -= 1
                took = account.leave() - start
                if outermost:
                    self._traced(options, function_type, start, took, line)

        return _create_concrete_function

    def _traced(self, options: Any, function_type: Any, start_ns: int, took_ns: int, line: Site | None) -> None:
        function = getattr(options, "python_function", None)
        name = str(getattr(options, "name", None) or getattr(function, "__name__", "function"))
        if not self._traces_inside and name == _FRAME and getattr(function, "__module__", "") == _TRAINER:
            # Only Keras's frame around a step that was traced before, for the twin of `input_tf`.
            self.tracker.compiled()
            return
        detail = {"operations": self._operations, **_where(line), **self._told(lambda: _news(options, function_type))}
        self._row("trace", name, start_ns, took_ns, code_site(_innermost(function)), **detail)

    def _told(self, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what is new about a trace; not knowing it is a gap, no failure."""
        self.account.enter(acc.OWN)
        try:
            return ask()
        except Exception as error:
            reason = f"{type(error).__name__} while reading them"
            self.recorder.gap("arguments of traced functions", reason, "use versions that fitdoctor knows")
            return {}
        finally:
            self.account.leave()

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
        name = str(detail.get("fun_name", ""))
        news: dict[str, Any] = {}
        if kind == "compile":
            line = user_site()
            news = {**_where(line), **self._told(lambda: self._jitted(f"{name} {line}"))}
        self._row(kind, name, start, end - start, None, **news)

    def _jitted(self, function: str) -> dict[str, Any]:
        """Compare what is being compiled with what this function was compiled with before."""
        called = traced.jitted_call()
        if called is None:
            return {}
        now = traced.of_jax(*called)
        before = self._compiled.setdefault(function, [])
        seen = now in before
        news = {"first": seen or not before, "changed": [] if seen or not before else traced.changes(before[-1], now)}
        before[:] = [*(each for each in before if each != now), now][-_KEPT_SHAPES:]
        return news

    # --- torch ------------------------------------------------------------------------------------

    def _dynamo(self) -> None:
        from torch._dynamo.callback import callback_handler

        callback_handler.register_start_callback(self._dynamo_started)
        callback_handler.register_end_callback(self._dynamo_ended)

    def _dynamo_started(self, *_: Any) -> None:
        self._dynamo_start = self.recorder.clock()

    def _dynamo_ended(self, *args: Any) -> None:
        if not self.recorder.mine():
            return
        start, end = self._dynamo_start, self.account.settle()
        self.account.move(acc.COMPILING, end - start)
        self._row("compile", "torch.compile", start, end - start, None, **_where(user_site()), **_frame(args))


def _where(line: Site | None) -> dict[str, Any]:
    return {} if line is None else {"line": [line.path, line.line]}


def _size(function: Any) -> int:
    """Count the operations of a traced function."""
    try:
        return len(function.graph.get_operations())
    except Exception:
        return 0  # what is being traced is the user's, and goes on


def _innermost(function: Any) -> Any:
    """Return the function that the user wrote, below what TensorFlow wraps around it."""
    for _ in range(_WRAPPERS):
        function = getattr(function, "__wrapped__", None) or function
    return function


def _news(options: Any, function_type: Any) -> dict[str, Any]:
    """Compare a trace with the one before it of the very same `tf.function`."""
    now = traced.of_tensorflow(function_type)
    last = _last(getattr(options, "function_cache", None))
    changed = traced.changes(traced.of_tensorflow(last.function_type), now) if last is not None else []
    return {"first": last is None, "changed": changed, "varies": any(_varies(each) for each in now.values())}


def _last(cache: Any) -> Any:
    """Return the newest function of a cache; None of an empty one."""
    if cache is None:
        return None
    known = getattr(cache, "_primary", None)
    # Listing all of them hashes every type of every argument: milliseconds where some hundreds were traced.
    newest_first = reversed(known.values()) if isinstance(known, dict) else reversed(cache.values())
    return next(iter(newest_first), None)


def _varies(described: str) -> bool:
    """Tell whether more than the first side of an array, which counts the samples, is left open."""
    sides = described.partition("[")[2].rstrip("]").split(",")
    return "..." in sides or "?" in sides[1:]


def _frame(args: tuple[Any, ...]) -> dict[str, Any]:
    """Return which piece of Python torch compiled and how often before: "3/1" is the second time of the fourth."""
    told = str(getattr(args[0], "compile_id", "")) if args else ""
    frame, _, times = told.rpartition("/")
    return {"frame": frame, "first": times == "0"} if times.isdigit() else {}

"""Hand-written training loops, recognised without an edit.

What makes a loop a training loop is that weights are updated in it.  The update marks the end of a step: a call of a
`tf.function` or of a jitted function in which an optimizer was traced, an optimizer applied op by op, or a step of a
torch optimizer.  The first kind of mark a loop shows is the one that counts its steps.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fitdoctor.model import Site
from fitdoctor.probes import account as acc
from fitdoctor.probes.drain import Drainer
from fitdoctor.probes.fetch import timed
from fitdoctor.probes.install import ImportWatch, Patches, hide, is_users, user_site
from fitdoctor.probes.steps import Tracker

STRANGERS = 3
"""So many marks of another kind without one of the loop's own mean that another loop has begun."""


class LoopProbe:
    """Hooks on everything that updates weights outside of `fit`."""

    def __init__(self, tracker: Tracker, patches: Patches) -> None:
        self.tracker = tracker
        self.account = tracker.account
        self.recorder = tracker.recorder
        self.patches = patches
        self._running: list[Any] = []
        """Compiled functions that are being called right now, outermost first."""
        self._training: set[int] = set()
        """ids of compiled functions in which an optimizer was traced."""
        self._kept: list[Any] = []
        self._strangers = 0
        self._explicit = 0
        self._elsewhere = 0
        self.applied = 0
        """How often an optimizer was applied, on any thread."""
        self._stateless = 0
        """How many `stateless_apply` are under way: each holds an `apply`."""
        self._drainers: dict[str, Drainer | None] = {}

    def attach(self, watch: ImportWatch) -> None:
        """Wait for the frameworks."""
        watch.when("tensorflow.python.eager.polymorphic_function.polymorphic_function", self._tensorflow)
        watch.when("keras.src.optimizers.base_optimizer", self._keras_optimizer)
        watch.when("torch.optim.optimizer", self._torch_optimizer)
        watch.when("torch.utils.data.dataloader", self._torch_loader)
        watch.when("tensorflow.python.data.ops.iterator_ops", self._tensorflow_iterators)
        watch.when("jax", self._jax)
        watch.when("optax", self._optax)

    # --- marks ------------------------------------------------------------------------------------

    def mark(self, marker: str, site: Site | None, *, compiled: bool, backend: str, **more: Any) -> None:
        """Note that weights were updated outside of `fit`."""
        tracker = self.tracker
        if tracker.stack or self._explicit or not tracker.claim():
            return
        key = [marker, site.path if site else None, site.line if site else None]
        loop = tracker.loop
        if loop is not None and loop.info.get("key") != key:
            if loop.kind == "train_on_batch" and marker != "torch.optim":
                return
            self._strangers += 1
            if self._strangers <= STRANGERS:
                return
            loop = None
        self._strangers = 0
        if loop is None:
            # The first update closes a step that began before we knew: it only opens the loop.
            info = {"marker": marker, "key": key, "compiled": compiled, "backend": backend, "adapter": "loop"}
            tracker.begin_loop(site, "loop", **info, **more)
            return
        tracker.step_done(loop)

    def mark_call(self, arguments: tuple[Any, ...], marker: str, site: Site | None, **more: Any) -> None:
        """Note that a function updated the weights; `arguments` are it and what it was called with.

        They are kept only while it may be decided that enough was seen: nothing is kept alive for longer.
        """
        loop = self.tracker.loop
        if loop is not None and self.tracker.on_step is not None:
            loop.arguments = arguments
        self.mark(marker, site, **more)
        if loop is not None:
            loop.arguments = None

    @contextlib.contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Let somebody else say what a step is: who calls what updates the weights."""
        self._elsewhere += 1
        try:
            yield
        finally:
            self._elsewhere -= 1

    def _traced(self) -> bool:
        """Note that an optimizer was traced; tell whether it was inside a compiled function."""
        if not self._running:
            return False
        outermost = self._running[0]
        if id(outermost) not in self._training:
            self._training.add(id(outermost))
            self._kept.append(outermost)
        return True

    # --- TensorFlow -------------------------------------------------------------------------------

    def _tensorflow(self) -> None:
        module = sys.modules["tensorflow.python.eager.polymorphic_function.polymorphic_function"]
        self.patches.wrap(module.Function, "__call__", self._function_call, every_step=True)

    def _function_call(self, original: Any) -> Callable[..., Any]:
        tracker, account, running, training = self.tracker, self.account, self._running, self._training
        context = sys.modules["tensorflow.python.eager.context"]

        def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if tracker.stack or self._explicit or not self.recorder.mine() or not context.executing_eagerly():
                return original(function, *args, **kwargs)
            loop = tracker.loop
            known = id(function) in training
            running.append(function)
            if known and loop is not None:
                account.enter(acc.RUN)
            try:
                result = original(function, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                running.pop()
                if known and loop is not None:
                    account.leave()
            if known or id(function) in training:
                given = function, args, kwargs
                self.mark_call(given, "tf.function", user_site(), compiled=True, backend="tensorflow")
            return result

        return __call__

    def _tensorflow_iterators(self) -> None:
        module = sys.modules["tensorflow.python.data.ops.iterator_ops"]
        self.patches.wrap(module.OwnedIterator, "__init__", self.made_iterator)

    # --- optimizers -------------------------------------------------------------------------------

    def _keras_optimizer(self) -> None:
        from keras.src.optimizers.base_optimizer import BaseOptimizer

        self.patches.wrap(BaseOptimizer, "apply", self._apply, every_step=True)
        self.patches.wrap(BaseOptimizer, "stateless_apply", self._stateless_apply)

    def _apply(self, original: Any) -> Callable[..., Any]:
        tracker = self.tracker

        def apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(optimizer, *args, **kwargs)
            self.applied += 1
            if self._stateless:
                return result  # what it is a part of counts
            if (
                tracker.stack
                or self._explicit
                or self._elsewhere
                or tracker.account.top == acc.RUN
                or not self.recorder.mine()
            ):
                if self._running:
                    self._traced()
                return result
            if not self._traced() and not _tracing_tensorflow():
                backend = str(getattr(sys.modules.get("keras.src.backend.config"), "_BACKEND", ""))
                self.mark("optimizer.apply", user_site(), compiled=False, backend=backend)
            return result

        return apply

    def _stateless_apply(self, original: Any) -> Callable[..., Any]:
        def stateless_apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self._stateless += 1
            try:
                result = original(optimizer, *args, **kwargs)
            finally:
                self._stateless -= 1
            self._jax_update(args[1] if len(args) > 1 else kwargs.get("grads"))
            return result

        return stateless_apply

    def _jax_update(self, values: Any) -> None:
        if not self.recorder.mine() or self.tracker.stack:
            return
        if _traced_by_jax(values):
            self._traced()
        elif not self._running:
            self.mark("optimizer.apply", user_site(3), compiled=False, backend="jax")

    def _torch_optimizer(self) -> None:
        module = sys.modules["torch.optim.optimizer"]

        def stepped(*_: Any) -> None:
            if self.recorder.live:
                self.mark("torch.optim", user_site(), compiled=False, backend="torch")

        module.register_optimizer_step_post_hook(stepped)

    def _torch_loader(self) -> None:
        module = sys.modules["torch.utils.data.dataloader"]
        self.patches.wrap(module._BaseDataLoaderIter, "__next__", self._loader_next)
        self.patches.wrap(module.DataLoader, "__iter__", self.made_iterator)

    def made_iterator(self, original: Any) -> Callable[..., Any]:
        """Account the making of an iterator inside a hand-written loop."""
        tracker, account = self.tracker, self.account

        def make(*args: Any, **kwargs: Any) -> Any:
            if tracker.loop is None or tracker.stack or not self.recorder.mine() or account.depth > 1:
                return original(*args, **kwargs)
            bucket = tracker.new_iterator()
            if bucket is None:
                return original(*args, **kwargs)
            account.enter(bucket)
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                account.leave()

        return make

    def _loader_next(self, original: Any) -> Callable[..., Any]:
        tracker, account = self.tracker, self.account

        def __next__(loader: Any) -> Any:  # noqa: N807
            loop = tracker.loop
            if loop is None or tracker.stack or account.top == acc.FETCH or not self.recorder.mine():
                return original(loader)
            account.enter(acc.FETCH)
            try:
                return original(loader)
            except BaseException as error:
                hide(error)
                raise
            finally:
                account.leave()

        return __next__

    # --- JAX --------------------------------------------------------------------------------------

    def _optax(self) -> None:
        optax = sys.modules["optax"]

        def make(original: Any) -> Callable[..., Any]:
            def apply_updates(params: Any, updates: Any) -> Any:
                result = original(params, updates)
                self._jax_update(updates)
                return result

            return apply_updates

        self.patches.wrap(optax, "apply_updates", make)

    def _jax(self) -> None:
        self.patches.wrap(sys.modules["jax"], "jit", self._jit)

    def _jit(self, original: Any) -> Callable[..., Any]:
        probe = self

        def jit(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            if not probe.recorder.live or not is_users(sys._getframe(1).f_code.co_filename):
                return made
            if args or "fun" in kwargs:
                return Jitted(made, probe)
            # Called with options only: what came back is a decorator.
            return lambda fun: Jitted(made(fun), probe)

        return jit

    def call_jitted(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function the user jitted; a step if weights are updated in it."""
        tracker, account = self.tracker, self.account
        if tracker.stack or self._explicit or self._running or not self.recorder.mine():
            return function(*args, **kwargs)
        known = id(function) in self._training
        loop = tracker.loop if known else None
        self._running.append(function)
        try:
            drainer = self._drainer("jax") if loop is not None else None
            if drainer is not None:
                drainer.countdown -= 1
            if loop is not None and drainer is not None and drainer.countdown <= 0:
                result = drainer.run(lambda *a: function(*a, **kwargs), args, loop)
            else:
                if loop is not None:
                    account.enter(acc.RUN)
                try:
                    result = function(*args, **kwargs)
                finally:
                    if loop is not None:
                        account.leave()
        except BaseException as error:
            hide(error)
            raise
        finally:
            self._running.pop()
        if id(function) in self._training:
            self.mark_call((function, args, kwargs), "jax.jit", user_site(3), compiled=True, backend="jax")
        return result

    def _drainer(self, backend: str) -> Drainer | None:
        if backend not in self._drainers:
            self._drainers[backend] = Drainer.of(backend, self.tracker)
        return self._drainers[backend]

    # --- said explicitly --------------------------------------------------------------------------

    def steps(self, data: Iterable[Any]) -> Iterator[Any]:
        """Iterate over the user's data, each turn of his loop being one step."""
        tracker = self.tracker
        if tracker.stack or not tracker.claim():
            yield from data
            return
        info = {"marker": "fitdoctor.steps", "compiled": False, "adapter": "loop"}
        backend = str(getattr(sys.modules.get("keras.src.backend.config"), "_BACKEND", ""))
        loop = tracker.begin_loop(user_site(), "loop", backend=backend, **info)
        if loop is None:
            yield from data
            return
        self._explicit += 1
        try:
            for batch in timed(data, tracker):
                yield batch
                if not self.recorder.live:
                    continue
                tracker.step_done(loop)
        finally:
            self._explicit -= 1
            if tracker.loop is loop:
                tracker.end_loop()


class Jitted:
    """Stands in for a function the user jitted; everything but calling goes to the real one."""

    def __init__(self, function: Any, probe: LoopProbe) -> None:
        functools.update_wrapper(self, function)
        self._fitdoctor_function = function
        self._fitdoctor_probe = probe

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: D102 - what the user's function does
        probe = self._fitdoctor_probe
        if not probe.recorder.live or threading.get_ident() != probe.recorder.owner:
            return self._fitdoctor_function(*args, **kwargs)
        return probe.call_jitted(self._fitdoctor_function, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_fitdoctor"):
            raise AttributeError(name)
        return getattr(self._fitdoctor_function, name)


def _tracing_tensorflow() -> bool:
    context = sys.modules.get("tensorflow.python.eager.context")
    return context is not None and not context.executing_eagerly()


def _traced_by_jax(values: Any) -> bool:
    jax = sys.modules.get("jax")
    if jax is None:
        return False
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(values))

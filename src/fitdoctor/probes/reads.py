"""Results read back in hand-written loops: how long the training thread is blocked, and on which line of the user's.

JAX turns an array into numbers through its property `_value` (`float(loss)`, `int`, `bool`, formats, `jax.device_get`)
or through `item`; `block_until_ready` waits without reading.  NumPy reads an array on the CPU past Python, through its
buffer (`np.asarray(loss)`): that is not seen.  TensorFlow's eager tensors all go through `_numpy`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from threading import get_ident
from typing import Any

from fitdoctor.model import Site
from fitdoctor.probes import account as acc
from fitdoctor.probes.install import ImportWatch, Patches, hide, user_site
from fitdoctor.probes.steps import Tracker

MOST_LINES = 200
_PLAIN = ("__name__", "__doc__")


class ReadProbe:
    """Hooks on what turns results into numbers."""

    def __init__(self, tracker: Tracker, patches: Patches) -> None:
        self.tracker = tracker
        self.account = tracker.account
        self.recorder = tracker.recorder
        self.patches = patches
        self._lines: dict[tuple[int, Site | None], list[int]] = {}
        self.recorder.on_flush.append(self._save)

    def attach(self, watch: ImportWatch) -> None:
        """Wait for the frameworks."""
        watch.when("jax", self._jax)
        watch.when("tensorflow.python.framework.ops", self._tensorflow)

    def _jax(self) -> None:
        from jax._src.array import ArrayImpl

        value = vars(ArrayImpl).get("_value")
        if isinstance(value, property) and value.fget is not None:
            self.patches.set(ArrayImpl, "_value", property(self.timed(value.fget), doc=value.__doc__))
        else:
            self.recorder.gap(
                "time blocked reading results of JAX",
                "this version keeps an array's value elsewhere",
                "use a version fitdoctor knows (see `fitdoctor env`), or report it",
            )
        self.patches.wrap(ArrayImpl, "item", self.timed)
        # A method of nanobind's, whose name is not one that Python would let us copy.
        wait = functools.update_wrapper(self.timed(ArrayImpl.block_until_ready), ArrayImpl.block_until_ready, _PLAIN)
        self.patches.set(ArrayImpl, "block_until_ready", wait)
        self.patches.wrap(sys.modules["jax"], "block_until_ready", self.timed)

    def _tensorflow(self) -> None:
        module = sys.modules["tensorflow.python.framework.ops"]
        self.patches.wrap(module._EagerTensorBase, "_numpy", self.timed)

    def timed(self, original: Any) -> Callable[..., Any]:
        """Wrap what reads a result: in the user's own lines of a loop, the time it takes is blocked time."""
        tracker, account, recorder, note = self.tracker, self.account, self.recorder, self._note
        stack, users_own = account.stack, acc.LOOP

        def read(*args: Any, **kwargs: Any) -> Any:
            loop = tracker.loop
            if (
                loop is None
                or stack[-1] != users_own
                or tracker.stack
                or not recorder.live
                or get_ident() != recorder.owner
            ):
                return original(*args, **kwargs)
            start = account.enter(acc.SYNC)
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                note(loop.id, account.leave() - start)

        return read

    def _note(self, call: int, took_ns: int) -> None:
        try:
            seen = self._lines.setdefault((call, user_site()), [0, 0])
            seen[0] += 1
            seen[1] += took_ns
        except Exception as error:
            self.recorder.fail("reads", error)

    def _save(self) -> None:
        for (call, site), (count, total) in list(self._lines.items())[:MOST_LINES]:
            if site is not None:
                self.recorder.put("reads", (call, site), (call, site.path, site.line, site.symbol, count, total))

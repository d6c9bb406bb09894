"""What each callback costs, by name and hook, without becoming a callback.

Keras decides how it dispatches callbacks by looking at them, so nothing is added to its list.  Instead the hooks that a
callback really overrides are replaced on the very object by a timed version that looks the same to Keras, for the
duration of one `fit`.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

from fitdoctor.model import Site
from fitdoctor.probes import account as acc
from fitdoctor.probes.install import code_site, hide
from fitdoctor.probes.recorder import Recorder

HOOKS = (
    "on_batch_begin", "on_batch_end", "on_epoch_begin", "on_epoch_end", "on_train_begin", "on_train_end",
    "on_train_batch_begin", "on_train_batch_end", "on_test_begin", "on_test_end", "on_test_batch_begin",
    "on_test_batch_end", "on_predict_begin", "on_predict_end", "on_predict_batch_begin", "on_predict_batch_end",
)  # fmt: skip

_IN_STEP = frozenset({acc.LOOP, acc.BETWEEN})
"""On top of the account while Keras's loop over batches calls its callbacks."""
_ELSEWHERE = (acc.COMPILING, acc.IMPORTS, acc.VALIDATION)
"""What happens inside of a hook and is counted as what it is, not as the hook's."""
_ONCE = ("on_train_begin", "on_train_end")


class HookTime:
    """Running totals of one hook of one callback."""

    __slots__ = ("builtin", "count", "hook", "max_ns", "name", "self_ns", "site", "threaded", "total_ns")

    def __init__(self, name: str, hook: str, site: Site | None, builtin: bool, threaded: bool) -> None:
        self.name = name
        self.hook = hook
        self.site = site
        self.builtin = builtin
        self.threaded = threaded
        self.count = self.total_ns = self.self_ns = self.max_ns = 0

    def add(self, total_ns: int, self_ns: int) -> None:
        """Count one call of the hook."""
        self.count += 1
        self.total_ns += total_ns
        self.self_ns += self_ns
        self.max_ns = max(self.max_ns, total_ns)

    def row(self, call: int) -> tuple[Any, ...]:
        """Build the row of the `callbacks` table."""
        site = self.site
        return (
            call, self.name, self.hook, site and site.path, site and site.line, self.builtin, self.threaded, self.count,
            self.total_ns, self.self_ns, self.max_ns,
        )  # fmt: skip


class CallbackTimer:
    """Times the callbacks of one `fit`; `detach` leaves the objects as they were."""

    def __init__(self, recorder: Recorder, call: int, callbacks: Iterable[Any]) -> None:
        self._recorder = recorder
        self._call = call
        self._times: dict[tuple[str, str, bool], HookTime] = {}
        self._attached: list[tuple[Any, str]] = []
        names: dict[str, int] = {}
        for callback in callbacks:
            kind = type(callback)
            name = kind.__name__
            names[name] = names.get(name, 0) + 1
            label = name if names[name] == 1 else f"{name} #{names[name]}"
            builtin = kind.__module__.startswith(("keras.", "tensorflow.", "tf_keras."))
            for hook in HOOKS:
                self._attach(callback, hook, label, builtin)

    def _attach(self, callback: Any, hook: str, label: str, builtin: bool) -> None:
        original = getattr(callback, hook, None)
        if original is None or getattr(original, "_is_default", False):
            return
        with contextlib.suppress(Exception):
            site = code_site(original)
            # A LambdaCallback is Keras's, what it calls is the user's.
            timed = self._timed(original, hook, label, builtin and site is None, site or _class_site(callback))
            previous = getattr(callback, "__dict__", {}).get(hook, _ABSENT)
            object.__setattr__(callback, hook, timed)
            self._attached.append((callback, hook))
            timed.previous = previous  # type: ignore[attr-defined]

    def _timed(self, original: Any, hook: str, label: str, builtin: bool, site: Site | None) -> Callable[..., Any]:
        recorder = self._recorder
        clock = recorder.clock
        account = recorder.account
        totals, settle = account.totals, account.settle
        get_ident = threading.get_ident
        here: HookTime | None = None
        a, b, c = _ELSEWHERE
        # The validation of no epoch: nobody else counts it.
        often = 0 if hook in _ONCE else 1

        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            nonlocal here
            if not recorder.live:
                return original(*args, **kwargs)
            mine = get_ident() == recorder.owner
            inside = mine and account.top in _IN_STEP
            start = account.enter(acc.CALLBACK) if inside else settle() if mine else clock()
            elsewhere, saving = totals[a] + totals[b] + often * totals[c], totals[acc.SAVING]
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                spent = (account.leave() if inside else settle() if mine else clock()) - start
                if mine:
                    if here is None:
                        here = self._time(label, hook, site, builtin, threaded=False)
                    spent -= totals[a] + totals[b] + often * totals[c] - elsewhere
                    here.add(spent, spent - (totals[acc.SAVING] - saving))
                else:
                    self._time(label, hook, site, builtin, threaded=True).add(spent, spent)

        return timed

    def _time(self, label: str, hook: str, site: Site | None, builtin: bool, threaded: bool) -> HookTime:
        key = (label, hook, threaded)
        time = self._times.get(key)
        if time is None:
            time = self._times[key] = HookTime(label, hook, site, builtin, threaded)
        return time

    def save(self) -> None:
        """Write the newest totals."""
        for key, time in list(self._times.items()):
            self._recorder.put("callbacks", (self._call, *key), time.row(self._call))

    def detach(self) -> None:
        """Put the objects back as they were."""
        for callback, hook in self._attached:
            timed = getattr(callback, "__dict__", {}).get(hook)
            previous = getattr(timed, "previous", None)
            if timed is None or previous is None:
                continue
            with contextlib.suppress(Exception):
                if previous is _ABSENT:
                    object.__delattr__(callback, hook)
                else:
                    object.__setattr__(callback, hook, previous)
        self._attached.clear()
        self.save()


class _Absent:
    """Marks a hook that was not set on the object."""


_ABSENT = _Absent()


def _class_site(callback: Any) -> Site | None:
    """Return the first line of the user's own in the callback's class."""
    for base in type(callback).__mro__:
        site = next((s for s in map(code_site, vars(base).values()) if s is not None), None)
        if site is not None:
            return site
    return None

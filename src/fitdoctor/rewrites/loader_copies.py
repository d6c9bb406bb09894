"""The same loader with other workers: threads, kept processes, or a `DataLoader` that keeps its own.

Nothing is edited and no constructor is called: a copy shares every attribute of the original (samplers, functions,
whatever a subclass added) but the few that say who does the work.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from fitdoctor.errors import CannotRun

PREFETCH = 2
"""Batches that torch lets each worker prepare ahead, where nothing is said."""


def is_pydataset(data: Any) -> bool:
    """Tell whether it is a `keras.utils.PyDataset`."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(data, keras.utils.PyDataset)


def is_dataloader(data: Any) -> bool:
    """Tell whether it is a torch `DataLoader`."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(data, torch.utils.data.DataLoader)


def in_threads(data: Any, count: int) -> Any:
    """Return the same `PyDataset` with so many worker threads."""
    return _same(data, _workers=count, _use_multiprocessing=False)


def with_processes(data: Any, count: int, *, keep: bool, in_order: bool = True) -> Any:
    """Return the same `DataLoader` with so many worker processes; `keep`: they outlive an epoch.

    It gives the batches in the very order in which the original would, seeded or not: torch draws a number whenever it
    starts workers, and orders an epoch when workers begin to read ahead, where a loader without workers orders it when
    its first batch is asked for.  Kept workers start once and read ahead; so both is made up for.  Unless `in_order`
    is false: then it is torch's own, which begins an epoch whenever Keras makes an iterator, two of them for each.
    """
    if count > 1 and data.num_workers <= 1 and _is_iterable(data):
        raise CannotRun(
            "each worker of an iterable dataset would give all of its data", do="let the dataset divide it by worker"
        )
    settings: dict[str, Any] = {"num_workers": count, "persistent_workers": keep and count > 0, "_iterator": None}
    if count == 0:
        settings.update(prefetch_factor=None, _DataLoader__multiprocessing_context=None, timeout=0)
    elif data.prefetch_factor is None:
        settings["prefetch_factor"] = PREFETCH
    kind: Any = type(data)
    if settings["persistent_workers"] and in_order:
        kind = _keeping_order(kind, data.num_workers == 0)
    return _same(data, kind, **settings)


def _same(data: Any, kind: Any = None, **settings: Any) -> Any:
    """Copy an object with a few attributes changed, without running any code of its class."""
    slots = [name for base in type(data).__mro__ for name in _slots(base)]
    if any(hasattr(data, name) for name in slots):
        raise CannotRun("its class keeps attributes in slots, which cannot be shared", do="try it in the script")
    copy: Any = object.__new__(kind or type(data))
    vars(copy).update({**vars(data), **settings})
    return copy


def _slots(base: type) -> tuple[str, ...]:
    found = vars(base).get("__slots__", ())
    names = (found,) if isinstance(found, str) else tuple(found)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _is_iterable(data: Any) -> bool:
    return isinstance(data.dataset, sys.modules["torch"].utils.data.IterableDataset)


@functools.cache
def _keeping_order(kind: Any, lazily: bool) -> Any:
    """Return a loader class whose kept workers leave the order of epochs as it was without them."""
    torch = sys.modules["torch"]

    def draw(loader: Any) -> None:
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)

    class Kept(kind):  # type: ignore[misc]
        """Draws what torch would have drawn to start workers anew."""

        def __iter__(self) -> Any:
            generator = self.generator if self.generator is not None else torch.default_generator
            before = generator.get_state()
            if not lazily:
                if self._iterator is not None:
                    draw(self)
                return super().__iter__()
            draw(self)
            return self._later(generator, before, generator.get_state())

        def _later(self, generator: Any, before: Any, after: Any) -> Any:
            if self._iterator is None and bool((generator.get_state() == after).all()):
                # Starting the workers draws the number that was drawn already.
                generator.set_state(before)
            yield from super().__iter__()

    return Kept

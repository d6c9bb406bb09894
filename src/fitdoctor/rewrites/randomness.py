"""The random numbers a loader draws: whether it draws any, and how workers are given streams of their own.

Forked workers inherit the state of every generator: without seeding all of them draw the same numbers, and a pool that
is made anew draws them again in every epoch.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any

_KINDS = ("Generator", "RandomState", "Random")
_DEPTH = 3
"""How far below the loader its own generators are looked for: its attributes, and those of its parts."""
_MOST = 200
"""Objects looked into."""
_FIRST = 16
_LIBRARIES = ("keras", "torch", "builtins", "numpy")


def base_seed() -> int:
    """Return a number that depends on the seeds the script has set, without drawing from any generator."""
    return zlib.crc32(repr([state for _, state in _shared_states()]).encode())


def reseed(loader: Any, *where: int) -> None:
    """Give every generator a stream of its own for this place: Python's, NumPy's and torch's own, and the loader's."""
    import numpy as np

    seeds = np.random.SeedSequence(where).generate_state(3 + _MOST).tolist()
    random.seed(seeds[0])
    np.random.seed(seeds[1])
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seeds[2])
    for seed, (_, generator) in zip(seeds[3:], own(loader), strict=False):
        _seed(generator, seed)


def _seed(generator: Any, seed: int) -> None:
    import numpy as np

    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = type(generator.bit_generator)(seed).state
    elif hasattr(generator, "manual_seed"):
        generator.manual_seed(seed)
    else:
        generator.seed(seed)


@contextlib.contextmanager
def watched(loader: Any) -> Iterator[Callable[[], list[str]]]:
    """Hand out a function that names the generators which were used since."""
    before = dict(_states(loader))

    def used() -> list[str]:
        return [name for name, state in _states(loader) if before.get(name) != state]

    yield used


@contextlib.contextmanager
def unchanged(loader: Any) -> Iterator[None]:
    """Put every generator back afterwards as it was."""
    put_back = taken(loader)
    try:
        yield
    finally:
        put_back()


def taken(loader: Any) -> Callable[[], None]:
    """Take the state of every generator; return what puts it back."""
    import numpy as np

    torch = sys.modules.get("torch")
    python, numpy_ = random.getstate(), np.random.get_state()
    torchs = torch.get_rng_state() if torch is not None else None
    kept = [(generator, _state(generator)) for _, generator in own(loader)]

    def put_back() -> None:
        random.setstate(python)
        np.random.set_state(numpy_)
        if torch is not None:
            torch.set_rng_state(torchs)
        for generator, state in kept:
            _put(generator, state)

    return put_back


def _put(generator: Any, state: Any) -> None:
    import numpy as np

    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        (getattr(generator, "set_state", None) or generator.setstate)(state)


def _state(generator: Any) -> Any:
    import numpy as np

    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return (getattr(generator, "get_state", None) or generator.getstate)()


def _states(loader: Any) -> Iterator[tuple[str, str]]:
    yield from _shared_states()
    for name, generator in own(loader):
        yield name, _text(_state(generator))


def _shared_states() -> Iterator[tuple[str, str]]:
    import numpy as np

    yield "random", _text(random.getstate())
    yield "numpy.random", _text(np.random.get_state())
    torch = sys.modules.get("torch")
    if torch is not None:
        yield "torch", _text(torch.get_rng_state())


def _text(state: Any) -> str:
    """Write a state out in full: arrays would be shortened."""
    if isinstance(state, dict):
        return str({name: _text(value) for name, value in state.items()})
    if isinstance(state, (tuple, list)):
        return str([_text(each) for each in state])
    return str(state.tolist()) if hasattr(state, "tolist") else repr(state)


def own(loader: Any) -> list[tuple[str, Any]]:
    """Find the generators that belong to a loader: its attributes', and those of the modules its classes are from."""
    found: dict[int, tuple[str, Any]] = {}
    seen: set[int] = set()
    level = [(type(loader).__name__, loader)]
    for _ in range(_DEPTH + 1):
        below: list[tuple[str, Any]] = []
        for name, value in level:
            if _is_generator(value):
                found[id(value)] = (name, value)
            elif id(value) not in seen and len(seen) < _MOST:
                seen.add(id(value))
                below += _parts(name, value)
        level = below
    for part in (loader, getattr(loader, "dataset", None)):
        module = sys.modules.get(type(part).__module__)
        if module is not None and type(part).__module__.split(".")[0] not in _LIBRARIES:
            for name, value in list(vars(module).items()):
                if _is_generator(value):
                    found[id(value)] = (name, value)
    return list(found.values())


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object or a container holds; of long ones the first: transforms come in short lists."""
    if isinstance(value, (list, tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        for place, part in enumerate(itertools.islice(items, _FIRST)):
            if _may_hold(part):
                yield f"{name}[{place}]", part
    elif hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType, types.FunctionType)):
        for key, part in list(vars(value).items()):
            if _may_hold(part):
                yield f"{name}.{key}", part


def _may_hold(value: Any) -> bool:
    return hasattr(value, "__dict__") or isinstance(value, (list, tuple, dict)) or _is_generator(value)


def _is_generator(value: Any) -> bool:
    kind = type(value)
    known = kind.__module__.split(".")[0] in ("numpy", "random", "torch")
    return known and kind.__name__ in _KINDS

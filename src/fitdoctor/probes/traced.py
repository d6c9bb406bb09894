"""What a function was traced or compiled with, argument by argument, and what is new against the time before.

Asked only while something is traced.  Arrays are described by type and shape, never by their content; of Python values
numbers are kept, of others only enough to tell two of them apart.
"""

from __future__ import annotations

import contextlib
import sys
import types
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

Described = dict[str, str]
"""What each argument was, by the name of the argument and the place inside it: `data[0]` → `float32[32,128]`."""

MOST_LEAVES = 2000
_KEPT_CHANGES = 4
_UNKNOWN = "?"


def of_tensorflow(function_type: Any) -> Described:
    """Describe the arguments that a `tf.function` was traced for."""
    found: Described = {}
    for name, parameter in function_type.parameters.items():
        for place, leaf in _inside(name, parameter.type_constraint):
            if len(found) >= MOST_LEAVES:
                return found
            found[place] = _tensorflow_leaf(leaf)
    return found


def _inside(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a trace type, or of the plain structure that an iterator yields."""
    kind = type(value).__name__
    if kind == "IteratorSpec":
        yield from _inside(place, value._element_spec)
    elif kind == "Dict" or isinstance(value, dict):
        for key, each in (value if isinstance(value, dict) else value.mapping).items():
            yield from _inside(f"{place}[{key!r}]", each)
    elif kind == "NamedTuple":
        for name, each in zip(value.attribute_names, value.attributes.components, strict=True):
            yield from _inside(f"{place}.{name}", each)
    elif kind in ("Tuple", "List") or isinstance(value, (tuple, list)):
        parts = value if isinstance(value, (tuple, list)) else getattr(value, "components_tuple", value).components
        for index, each in enumerate(parts):
            yield from _inside(f"{place}[{index}]", each)
    else:
        yield place, value


def _tensorflow_leaf(leaf: Any) -> str:
    kind = type(leaf).__name__
    if kind == "Literal":
        return _value(leaf.value)
    if kind == "Weakref":
        referred = leaf._ref()
        return f"{type(referred).__name__} object {id(referred):x}"
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        return kind
    sides = "..." if shape.rank is None else ",".join(_UNKNOWN if side is None else str(side) for side in shape)
    return f"{getattr(dtype, 'name', dtype)}[{sides}]"


def of_jax(args: tuple[Any, ...], kwargs: Mapping[str, Any], jit_info: Any) -> Described:
    """Describe the arguments that a jitted function was compiled for."""
    tree = sys.modules["jax"].tree_util
    parameters = list(getattr(getattr(jit_info, "fun_signature", None), "parameters", ()) or ())
    numbers = set(getattr(jit_info, "static_argnums", ()) or ())
    static = {*(getattr(jit_info, "static_argnames", ()) or ())}
    named = [(parameters[i] if i < len(parameters) else f"argument {i}", i, each) for i, each in enumerate(args)]
    found: Described = {}
    for name, index, value in [*named, *((name, -1, value) for name, value in kwargs.items())]:
        if index in numbers or name in static:
            found[name] = _value(value)
            continue
        for path, leaf in tree.tree_flatten_with_path(value)[0]:
            if len(found) >= MOST_LEAVES:
                return found
            found[name + tree.keystr(path)] = _jax_leaf(leaf)
    return found


def _jax_leaf(leaf: Any) -> str:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        # Traced by its type alone: another value is no reason to compile.
        return type(leaf).__name__
    weak = "weak " if getattr(leaf, "weak_type", False) else ""
    return f"{weak}{dtype}[{','.join(map(str, shape))}]"


def _value(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, complex)):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))})"
    if isinstance(value, (str, bytes)):
        return f"{type(value).__name__} {zlib.crc32(value.encode() if isinstance(value, str) else value):08x}"
    # Its own `repr` may run code of the user's.
    return f"{type(value).__name__} object {id(value):x}"


def changes(before: Described, now: Described) -> list[dict[str, str]]:
    """Return what is new: argument, what it was, what it is, and of which kind the change is; most telling first."""
    found = [
        {"argument": place, "was": was, "now": new, "kind": _kind(was, new)}
        for place in {**before, **now}
        if (was := before.get(place, "")) != (new := now.get(place, ""))
    ]
    order = ("value", "object", "shape", "dtype", "structure")
    return sorted(found, key=lambda each: order.index(each["kind"]))[:_KEPT_CHANGES]


def _kind(was: str, now: str) -> str:
    if not was or not now:
        return "structure"
    if " object " in was and " object " in now:
        return "object"
    arrays = was.endswith("]"), now.endswith("]")
    if all(arrays):
        return "shape" if was.partition("[")[0] == now.partition("[")[0] else "dtype"
    return "structure" if any(arrays) else "value"


def jitted_call() -> tuple[tuple[Any, ...], Mapping[str, Any], Any] | None:
    """Return arguments and options of the jitted function that is being compiled on this very stack."""
    frame: types.FrameType | None = sys._getframe(1)
    found = None
    while frame is not None:
        if frame.f_code.co_name == "cache_miss" and frame.f_code.co_filename.endswith("pjit.py"):
            # The outermost one is what the program called.
            found = frame
        frame = frame.f_back
    if found is None:
        return None
    with contextlib.suppress(KeyError):
        values = found.f_locals
        return values["args"], values["kwargs"], values["jit_info"]
    return None

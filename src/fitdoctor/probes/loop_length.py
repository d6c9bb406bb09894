"""How many steps a hand-written loop would have had: asked once, where it is cut short, of the loops themselves.

`for epoch in range(EPOCHS): for batch in data:` says its length, and its variables say how far it came.  Only what can
be read is read: numbers, names, attributes, sums and products of them; what a loop goes over is asked for its `len` (a
property of the user's own is not: it could do anything), after the last step that is watched.  Where
that does not say (`while`, a generator that was not seen to end) the length stays unknown, and nothing is made up.
"""

from __future__ import annotations

import ast
import math
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fitdoctor.probes.frames import Loop, loops_around
from fitdoctor.probes.install import is_users

WRAPPERS = ("tqdm", "track", "progress", "iter")
RANGES = ("range", "trange", "arange")
_SUMS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_LARGEST = 10**12
_NOWHERE: Mapping[str, Any] = types.MappingProxyType({})


class UnsaidError(Exception):
    """The source does not say."""


@dataclass(frozen=True, slots=True)
class Turns:
    """One loop: how many turns it has, and which one it is in."""

    of: int
    at: int | None
    """Complete turns before this one; None where no variable tells."""


def planned(frame: types.FrameType | None, steps: int, per_pass: int | None = None) -> int | None:
    """Return how many steps the loops around a frame have in all, of which `steps` are done; None if they do not say.

    A loop around a loop has to say which turn it is in; the innermost may leave that to the steps that were counted,
    and its length to what was seen: `per_pass` steps in a complete pass over its data.
    """
    nest: list[Turns] = []
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            for loop in loops_around(frame):
                try:
                    nest.append(turns(loop, frame))
                except UnsaidError:
                    if nest or per_pass is None or not isinstance(loop, ast.For):
                        return None
                    nest.append(Turns(per_pass, None))
        frame = frame.f_back
    return _steps(nest, steps)


def _steps(nest: list[Turns], steps: int) -> int | None:
    """Return the steps of all turns; `nest` has the innermost loop first."""
    if not nest or steps <= 0:
        return None
    whole = math.prod(loop.of for loop in nest)
    inner, *around = nest
    before, size = 0, inner.of
    for loop in around:
        if loop.at is None:
            return None
        before += loop.at * size
        size *= loop.of
    if inner.at is not None:
        # The step that runs is done: a loop that trains every few turns only, or several times in each, says so here.
        return max(steps, round(whole * steps / (before + inner.at + 1)))
    # One step a turn, or the loop is not what it seems; the step by which it was recognised is not counted.
    return whole if before <= steps <= before + inner.of else None


def turns(loop: Loop, frame: types.FrameType) -> Turns:
    """Return the turns of one loop, or raise UnsaidError."""
    if not isinstance(loop, ast.For):
        raise UnsaidError
    iterable, target = loop.iter, loop.target
    while isinstance(iterable, ast.Call) and _called(iterable) in (*WRAPPERS, "enumerate") and iterable.args:
        if _called(iterable) == "enumerate":
            counted = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
            first = [*iterable.args[1:], *(each.value for each in iterable.keywords if each.arg == "start")]
            start = _whole(first[0], frame) if first else 0
            return Turns(_length(iterable.args[0], frame), _at(counted, frame, range(start, _LARGEST)))
        iterable = iterable.args[0]
    if isinstance(iterable, ast.Call) and _called(iterable) in RANGES:
        said = _range(iterable, frame)
        return Turns(len(said), _at(target, frame, said))
    return Turns(_length(iterable, frame), None)


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _range(node: ast.Call, frame: types.FrameType) -> range:
    positional = [_whole(each, frame) for each in node.args]
    if not 1 <= len(positional) <= 3 or (len(positional) == 3 and positional[2] == 0):
        raise UnsaidError
    return range(*positional)


def _at(target: ast.expr | None, frame: types.FrameType, said: range) -> int | None:
    """Return how many turns are complete, from the loop's own variable."""
    if not isinstance(target, ast.Name):
        return None
    value = frame.f_locals.get(target.id)
    # The user may have assigned to it.
    return said.index(value) if isinstance(value, int) and value in said else None


def _length(node: ast.expr, frame: types.FrameType) -> int:
    if isinstance(node, ast.Call) and _called(node) in (*WRAPPERS, "enumerate") and node.args:
        return _length(node.args[0], frame)
    if isinstance(node, ast.Call) and _called(node) in RANGES:
        return len(_range(node, frame))
    return _sized(_value(node, frame))


def _sized(value: Any) -> int:
    """Return the length of what a loop goes over; a file or an iterator has none."""
    try:
        found = len(value)
    except Exception as error:
        cardinality = getattr(value, "cardinality", None)
        try:
            found = int(cardinality() if callable(cardinality) else cardinality)  # type: ignore[arg-type]
        except Exception:
            raise UnsaidError from error
    if not 0 < found < _LARGEST:
        raise UnsaidError
    return found


def _whole(node: ast.expr, frame: types.FrameType) -> int:
    value = _value(node, frame)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise UnsaidError
    return operator.index(value)


def _value(node: ast.expr, frame: types.FrameType) -> Any:
    """Return what an expression is now."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            for place in (frame.f_locals, frame.f_globals):
                if name in place:
                    return place[name]
        case ast.Attribute(value=inner, attr=attribute):
            # What an object holds; a property would be the user's own code.
            held = getattr(_value(inner, frame), "__dict__", _NOWHERE)
            if attribute in held:
                return held[attribute]
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            held = _value(inner, frame)
            if type(held) in (dict, list, tuple) and (key in held if isinstance(held, dict) else isinstance(key, int)):
                try:
                    return held[key]
                except IndexError as error:
                    raise UnsaidError from error
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _sum(operator.sub, 0, _value(operand, frame))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SUMS:
            return _sum(_SUMS[type(op)], _value(left, frame), _value(right, frame))
        case ast.Call(args=[only], keywords=[]) if _called(node) in ("len", "int", "ceil", "floor"):
            return _call(_called(node), _value(only, frame))
    raise UnsaidError


def _sum(op: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if type(left) not in (int, float) or type(right) not in (int, float):
        raise UnsaidError
    if op is operator.pow and not (abs(left) < 1000 and 0 <= right < 10):
        raise UnsaidError
    try:
        return op(left, right)
    except ArithmeticError as error:
        raise UnsaidError from error


_ROUND: dict[str, Callable[[float], int]] = {"int": int, "ceil": math.ceil, "floor": math.floor}


def _call(name: str, value: Any) -> int:
    if name == "len":
        return _sized(value)
    if type(value) not in (int, float) or not math.isfinite(value):
        raise UnsaidError
    return _ROUND[name](value)

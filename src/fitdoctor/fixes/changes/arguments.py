"""Arguments of a call: given, replaced, taken away, wrapped; and items of a list among them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fitdoctor.edits import Arguments, Listed, Unwrap, Wrap
from fitdoctor.fixes.document import CannotEdit, Splice
from fitdoctor.fixes.syntax import Span, Syntax

if TYPE_CHECKING:
    import libcst as cst

_ONLY_A_COMMENT = re.compile(rb"[ \t]*(#.*)?$")
_WIDEST = 88
"""A line is made longer than this only where the file has lines as long."""
_ATOMS = ("Name", "Attribute", "Call", "Subscript", "List", "Tuple", "Dict", "SimpleString", "Integer", "Float")


def arguments(edit: Arguments, syntax: Syntax, at: int, written: Sequence[tuple[str, str]]) -> list[Splice]:
    """Give and drop arguments; `written` are those to give, as the file spells their code."""
    call = syntax.call(at)
    splices: list[Splice] = []
    new: list[tuple[str, str]] = []
    for name, code in written:
        found = given(call, name, edit.order)
        if found is None:
            _refuse_spread(call, name)
            new.append((name, code))
        elif syntax.document.text[slice(*_value(syntax, found))].strip() != code.encode():
            splices.append(Splice(*_value(syntax, found), code.encode()))
    dropped = [found for name in edit.drop if (found := given(call, name, edit.order)) is not None]
    if dropped and new and len(dropped) == len(call.args):
        return [_in_place_of_all(syntax, call, new)]
    splices += [_without(syntax, call, each, dropped) for each in dropped]
    return splices + (_appended(syntax, call, [f"{name}={code}" for name, code in new]) if new else [])


def wrapped(edit: Wrap, syntax: Syntax, at: int, code: str) -> list[Splice]:
    """Put code around an argument."""
    found = given(syntax.call(at), edit.argument, edit.order)
    if found is None or found.star:
        raise CannotEdit(f"it is not given {edit.argument} there")
    start, end = _value(syntax, found)
    text = syntax.document.text[start:end].decode()
    plain = type(found.value).__name__ in _ATOMS or bool(getattr(found.value, "lpar", ()))
    before, after = code.split("{}")
    if text.startswith(before) and text.endswith(after):
        return []
    bare = not before.endswith("(") and not plain
    return [Splice(start, end, (before + (f"({text})" if bare else text) + after).encode())]


def unwrapped(edit: Unwrap, syntax: Syntax, at: int) -> list[Splice]:
    """Put an argument in the place of its call."""
    call = syntax.call(at)
    found = given(call, edit.argument, edit.order)
    if found is None or found.star:
        raise CannotEdit(f"it is not given {edit.argument} there")
    span = syntax.span(call)
    text = syntax.document.text[slice(*_value(syntax, found))]
    if b"#" in syntax.document.text[span.start : span.end]:
        raise CannotEdit("a comment stands in the call")
    plain = type(found.value).__name__ in _ATOMS or text.startswith(b"(")
    return [Splice(span.start, span.end, text if plain else b"(" + text + b")")]


def listed(edit: Listed, syntax: Syntax, at: int, item: str) -> list[Splice]:
    """Add an item to a list, or the list itself."""
    import libcst as cst

    call = syntax.call(at)
    found = given(call, edit.argument, edit.order)
    if found is None:
        _refuse_spread(call, edit.argument)
        return _appended(syntax, call, [f"{edit.argument}=[{item}]"])
    value = found.value
    if isinstance(value, cst.Name) and value.value == "None":
        return [Splice(*_value(syntax, found), f"[{item}]".encode())]
    if not isinstance(value, cst.List) or value.lpar:
        raise CannotEdit(f"its {edit.argument} are not written there as a list")
    if any(syntax.text(each.value) == item.encode() for each in value.elements):
        return []
    span = syntax.span(value)
    inside = Span(span.start + 1, span.end - 1)
    return _added(syntax, inside, [syntax.whole(each.value) for each in value.elements], _comma(value.elements), [item])


def given(call: cst.Call, name: str, order: Sequence[str]) -> cst.Arg | None:
    """Return an argument of a call, by name or by its place among those that may be given by position."""
    for each in call.args:
        if each.keyword is not None and each.keyword.value == name:
            return each
    place = order.index(name) if name in order else None
    if place is None:
        return None
    for index, each in enumerate(call.args):
        if each.star == "*" and index <= place:
            raise CannotEdit("arguments are handed on with *: what stands where is not seen")
        if each.keyword is not None or each.star:
            return None
        if index == place:
            return each
    return None


def _refuse_spread(call: cst.Call, name: str) -> None:
    if any(each.star == "**" for each in call.args):
        raise CannotEdit(f"arguments are handed on with **: {name} may be among them")


def _value(syntax: Syntax, argument: cst.Arg) -> tuple[int, int]:
    span = syntax.whole(argument.value)
    return span.start, span.end


def _comma(items: Sequence[cst.Arg] | Sequence[cst.BaseElement]) -> cst.Comma | None:
    import libcst as cst

    last = items[-1].comma if items else None
    return last if isinstance(last, cst.Comma) else None


def _appended(syntax: Syntax, call: cst.Call, new: Sequence[str]) -> list[Splice]:
    spans = [Span(syntax.span(each).start, _value(syntax, each)[1]) for each in call.args]
    return _added(syntax, syntax.brackets(call), spans, _comma(call.args), new)


def _added(
    syntax: Syntax, inside: Span, items: Sequence[Span], comma: cst.Comma | None, new: Sequence[str]
) -> list[Splice]:
    """Add items at the end: in lines of their own where the others stand so, else in the last one's line."""
    document = syntax.document
    text = document.text
    if not items:
        return [Splice(inside.start, inside.start, ", ".join(new).encode())]
    last = items[-1]
    after = syntax.span(comma).end if comma is not None else last.end
    own_line = not text[document.line_start(last.start) : last.start].strip()
    rest = document.line_end(after)
    closing_below = bool(_ONLY_A_COMMENT.match(text[after:rest])) and rest < inside.end
    if own_line and closing_below:
        between = document.newline + document.indent(last.start)
        lines = b"".join(between + each.encode() + b"," for each in new)
        if comma is not None:
            return [Splice(rest, rest, lines)]
        lines = lines[:-1]
        return [Splice(after, after, b"," + lines)] if rest == after else [
            Splice(after, after, b","), Splice(rest, rest, lines)
        ]  # fmt: skip
    if b"#" in text[after : inside.end] and not closing_below:
        raise CannotEdit("a comment stands where the argument would go")
    joined = ", ".join(new)
    if comma is not None:
        return [Splice(after, after, f" {joined},".encode())]
    longest = max(_WIDEST, *(len(line) for line in document.origin.decode().splitlines()))
    line = document.line_end(last.end) - document.line_start(last.end) + len(joined) + 2
    if own_line and line > longest and text[last.end : last.end + 1] == b")":
        return [Splice(after, after, b"," + document.newline + document.indent(last.start) + joined.encode())]
    return [Splice(after, after, f", {joined}".encode())]


def _in_place_of_all(syntax: Syntax, call: cst.Call, new: Sequence[tuple[str, str]]) -> Splice:
    start, end = syntax.span(call.args[0]).start, _value(syntax, call.args[-1])[1]
    if b"#" in syntax.document.text[start:end]:
        raise CannotEdit("a comment stands beside the argument")
    return Splice(start, end, ", ".join(f"{name}={code}" for name, code in new).encode())


def _without(syntax: Syntax, call: cst.Call, argument: cst.Arg, dropped: Sequence[cst.Arg]) -> Splice:
    """Take an argument away, with its line where it has one of its own."""
    document, text = syntax.document, syntax.document.text
    place = call.args.index(argument)
    following = [each for each in call.args[place + 1 :] if each.keyword is None and each not in dropped]
    if argument.keyword is None and following:
        raise CannotEdit("other arguments come after it by position")
    start, end = syntax.span(argument).start, syntax.whole(argument.value).end
    after = _behind(syntax, argument)
    first_line, rest = document.line_start(start), document.line_end(after)
    if b"#" in text[after:rest] and _ONLY_A_COMMENT.match(text[after:rest]):
        raise CannotEdit("a comment stands beside the argument")
    if _has_own_lines(syntax, argument):
        return Splice(first_line, document.next_line(after), b"")
    before, behind = call.args[:place], call.args[place + 1 :]
    lost_comma = bool(before) and before[-1] in dropped and _has_own_lines(syntax, before[-1])
    if any(each not in dropped for each in before) and not lost_comma:
        start = syntax.whole(before[-1].value).end
    elif behind and not (behind[0] in dropped and _has_own_lines(syntax, behind[0])):
        end = syntax.span(behind[0]).start
    else:
        end = after
    if b"#" in text[start:end]:
        raise CannotEdit("a comment stands beside the argument")
    return Splice(start, end, b"")


def _behind(syntax: Syntax, argument: cst.Arg) -> int:
    """Return where an argument ends, with its comma."""
    import libcst as cst

    return (
        syntax.span(argument.comma).end if isinstance(argument.comma, cst.Comma) else syntax.whole(argument.value).end
    )


def _has_own_lines(syntax: Syntax, argument: cst.Arg) -> bool:
    """Tell whether nothing else stands in the lines of an argument."""
    document, text = syntax.document, syntax.document.text
    start, after = syntax.span(argument).start, _behind(syntax, argument)
    before = text[document.line_start(start) : start]
    return not before.strip() and not text[after : document.line_end(after)].strip()

"""Calls in a chain: one more, another method, two in another order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fitdoctor.fixes.document import CannotEdit, Splice
from fitdoctor.fixes.syntax import Span, Syntax

if TYPE_CHECKING:
    import libcst as cst

_ONLY_A_COMMENT = re.compile(rb"[ \t]*(#.*)?$")


def chained(syntax: Syntax, at: int, code: str) -> list[Splice]:
    """Call one more method of what a call returns; in a line of its own where the chain is written so."""
    import libcst as cst

    call = syntax.call(at)
    document, text = syntax.document, syntax.document.text
    around = syntax.parents.get(call)
    if isinstance(around, cst.Attribute) and code.startswith(f".{around.attr.value}("):
        return []
    end = syntax.span(call).end
    if isinstance(call.func, cst.Attribute):
        dot = text.rindex(b".", 0, syntax.span(call.func.attr).start)
        first = document.line_start(dot)
        continued = text[:first].rstrip(b"\r\n").endswith(b"\\")
        if not text[first:dot].strip() and first > 0 and not continued:
            rest = document.line_end(end)
            place = rest if _ONLY_A_COMMENT.match(text[end:rest]) else end
            return [Splice(place, place, document.newline + document.indent(dot) + code.encode())]
    return [Splice(end, end, code.encode())]


def renamed(syntax: Syntax, at: int, name: str) -> list[Splice]:
    """Call another method."""
    import libcst as cst

    call = syntax.call(at)
    if not isinstance(call.func, cst.Attribute):
        raise CannotEdit("it is not called as a method")
    span = syntax.span(call.func.attr)
    return [Splice(span.start, span.end, name.encode())]


def swapped(syntax: Syntax, first_at: int, second_at: int) -> list[Splice]:
    """Let the second call come first: in one chain, or in two assignments to one name that follow each other."""
    first, second = syntax.call(first_at), syntax.call(second_at)
    one = _own(syntax, first)
    two = _own(syntax, second)
    text = syntax.document.text
    parts = [text[each.start : each.end] for each in (one, two)]
    if any(not part.lstrip().startswith(b".") or b"#" in part for part in parts):
        raise CannotEdit("the calls are written in a way that does not let them change places")
    if one.end != two.start and not _follow(syntax, first, second):
        raise CannotEdit("the calls do not follow each other right away")
    return [Splice(one.start, one.end, parts[1]), Splice(two.start, two.end, parts[0])]


def _own(syntax: Syntax, call: cst.Call) -> Span:
    """Return what a call adds to its object: from the dot (and the line before it) to its last bracket."""
    import libcst as cst

    if not isinstance(call.func, cst.Attribute):
        raise CannotEdit("it is not called as a method")
    return Span(syntax.whole(call.func.value).end, syntax.span(call).end)


def _follow(syntax: Syntax, first: cst.Call, second: cst.Call) -> bool:
    """Tell `data = data.map(f)` and, next, `data = data.batch(n)...` from anything else."""
    import libcst as cst

    lines = [syntax.parents[syntax.statement(each)] for each in (first, second)]
    one, two = syntax.statement(first), syntax.statement(second)
    if lines[0] is not lines[1] or not isinstance(lines[0], (cst.Module, cst.IndentedBlock)):
        return False
    body: list[cst.CSTNode] = list(lines[0].body)
    if one not in body or two not in body or body.index(two) != body.index(one) + 1:
        return False
    if not (isinstance(one, cst.SimpleStatementLine) and isinstance(two, cst.SimpleStatementLine)):
        return False
    left, right = one.body[0], two.body[0]
    if not (isinstance(left, cst.Assign) and isinstance(right, cst.Assign)) or len(one.body) + len(two.body) != 2:
        return False
    names = [each.targets[0].target for each in (left, right) if len(each.targets) == 1]
    source = second.func.value if isinstance(second.func, cst.Attribute) else None
    written = {each.value for each in (*names, source) if isinstance(each, cst.Name)}
    if len(names) != 2 or not isinstance(source, cst.Name) or len(written) != 1 or left.value is not first:
        return False
    # What else the second statement does with the name would see the other call done.
    return sum(isinstance(each, cst.Name) and each.value == source.value for each in _below(right.value)) == 1


def _below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield what an expression is made of; the names of attributes and of arguments stand for nothing by themselves."""
    import libcst as cst

    yield node
    named = node.attr if isinstance(node, cst.Attribute) else node.keyword if isinstance(node, cst.Arg) else None
    for child in node.children:
        if child is not named:
            yield from _below(child)

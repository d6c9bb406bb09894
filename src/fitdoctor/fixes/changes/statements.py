"""Whole lines: decorators, statements that go, come or move out of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fitdoctor.fixes.document import CannotEdit, Splice
from fitdoctor.fixes.syntax import Syntax

if TYPE_CHECKING:
    import libcst as cst


def decorated(syntax: Syntax, at: int, code: str) -> list[Splice]:
    """Put a decorator right above a `def`."""
    document = syntax.document
    function = syntax.function_at(at)
    if any(syntax.text(each.decorator) == code.lstrip("@").encode() for each in function.decorators):
        return []
    start = document.line_start(at)
    if document.text[start:at].strip():
        raise CannotEdit("the function does not begin in a line of its own")
    return [Splice(start, start, document.text[start:at] + code.encode() + document.newline)]


def defined(syntax: Syntax, at: int, name: str, parameters: Sequence[tuple[str, str]]) -> list[Splice]:
    """Give a function another name, and its parameters others."""
    function = syntax.function_at(at)
    renamed = dict(parameters)
    names = [(function.name, name)]
    names += [(each.name, renamed[each.name.value]) for each in function.params.params if each.name.value in renamed]
    changed = [(syntax.span(node), new) for node, new in names if node.value != new]
    return [Splice(span.start, span.end, new.encode()) for span, new in changed]


def removed(syntax: Syntax, at: int) -> list[Splice]:
    """Take a statement away, with its line; `pass` stays where nothing else would."""
    statement = syntax.statement_at(at)
    return [_gone(syntax, statement)]


def _gone(syntax: Syntax, statement: cst.SimpleStatementLine) -> Splice:
    import libcst as cst

    document, span = syntax.document, syntax.span(statement)
    block = syntax.parents[statement]
    if b"#" in document.text[span.end : document.line_end(span.end)]:
        raise CannotEdit("a comment stands beside it")
    if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
        return Splice(span.start, span.end, b"pass")
    return Splice(document.line_start(span.start), document.next_line(span.end), b"")


def earlier(syntax: Syntax, at: int, before: int) -> list[Splice]:
    """Move a statement of one block up, with its line."""
    document, statement, other = syntax.document, syntax.statement_at(at), syntax.statement_at(before)
    if syntax.parents[statement] is not syntax.parents[other] or before > at:
        raise CannotEdit("the statements do not stand in one block, one after the other")
    span = syntax.span(statement)
    start = document.line_start(before)
    line = document.text[document.line_start(span.start) : span.end] + document.newline
    return [Splice(start, start, line), _gone(syntax, statement)]


def hoisted(syntax: Syntax, at: int) -> list[Splice]:
    """Move a statement of one line before the loop around it."""
    import libcst as cst

    document, statement = syntax.document, syntax.statement_at(at)
    span = syntax.span(statement)
    loop = syntax.parents.get(syntax.parents[statement])
    if not isinstance(loop, (cst.For, cst.While)) or b"\n" in syntax.text(statement):
        raise CannotEdit("it is not one line right in a loop")
    start = document.line_start(syntax.span(loop).start)
    line = document.indent(start) + document.text[span.start : span.end] + document.newline
    return [Splice(start, start, line), _gone(syntax, statement)]


def inserted(syntax: Syntax, code: str) -> list[Splice]:
    """Add a statement after the imports, apart from them by an empty line."""
    document = syntax.document
    if any(line.strip() == code.encode() for line in document.text.splitlines()):
        return []
    last = _last_import(syntax, None)
    if last is None:
        place = _first_statement(syntax)
        return [Splice(place, place, code.encode() + document.newline)]
    return [_below(syntax, last, document.newline + code.encode())]


def imported(syntax: Syntax, code: str, before: int | None) -> list[Splice]:
    """Add an import to those that come before a place."""
    document = syntax.document
    last = _last_import(syntax, before)
    if last is None:
        place = _first_statement(syntax)
        return [Splice(place, place, code.encode() + 2 * document.newline)]
    return [_below(syntax, last, (b"" if _imports(last) else document.newline) + code.encode())]


def _below(syntax: Syntax, node: cst.CSTNode, text: bytes) -> Splice:
    """Add lines below a statement."""
    document = syntax.document
    place = document.next_line(syntax.span(node).end)
    ended = document.text[:place].endswith((b"\n", b"\r"))
    return Splice(place, place, text + document.newline if ended else document.newline + text)


def _last_import(syntax: Syntax, before: int | None) -> cst.CSTNode | None:
    """Return the last import above the first function or class, or the docstring."""
    import libcst as cst

    last: cst.CSTNode | None = None
    for number, node in enumerate(syntax.module.body):
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)) or (before is not None and syntax.span(node).end > before):
            break
        if isinstance(node, cst.SimpleStatementLine) and (_imports(node) or (number == 0 and _docstring(node))):
            last = node
    return last


def _first_statement(syntax: Syntax) -> int:
    """Return the line of the first statement, after a `#!` and comments at the top."""
    body = syntax.module.body
    return syntax.document.line_start(syntax.span(body[0]).start) if body else len(syntax.document.text)


def _imports(node: cst.CSTNode) -> bool:
    import libcst as cst

    return isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], (cst.Import, cst.ImportFrom))


def _docstring(node: cst.SimpleStatementLine) -> bool:
    import libcst as cst

    return isinstance(node.body[0], cst.Expr) and isinstance(
        node.body[0].value, (cst.SimpleString, cst.ConcatenatedString)
    )

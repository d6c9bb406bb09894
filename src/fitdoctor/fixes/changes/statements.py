"""Whole lines: decorators, statements that go, come or move out of a loop."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fitdoctor.fixes.document import CannotEdit, Splice
from fitdoctor.fixes.syntax import Syntax

if TYPE_CHECKING:
    import libcst as cst

_SETS_ENVIRONMENT = re.compile(
    rb"(?:\w+\.)?(?:environ\s*(?:\[.*\]\s*=(?!=)|\|=|\.(?:setdefault|update|pop)\()|putenv\()|del\s+(?:\w+\.)?environ\b",
    re.DOTALL,
)


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


def inserted(syntax: Syntax, code: str, name: str) -> list[Splice]:
    """Add statements after the imports, apart from them by an empty line; `name` is what they need, in full."""
    document, lines = syntax.document, code.encode().split(b"\n")
    known = {line.strip() for line in document.text.splitlines()}
    if known.issuperset(lines):
        return []
    text = document.newline.join(lines)
    last = _head(syntax, name)
    if last is None:
        place = _first_statement(syntax)
        return [Splice(place, place, text + document.newline)]
    return [_below(syntax, last, document.newline + text)]


def below_imports(syntax: Syntax, name: str) -> int:
    """Return where a statement that needs a library would be added."""
    last = _head(syntax, name)
    return syntax.document.next_line(syntax.span(last).end) if last is not None else _first_statement(syntax)


def imported(syntax: Syntax, code: str, before: int) -> list[Splice]:
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


def _head(syntax: Syntax, name: str) -> cst.CSTNode | None:
    """Return the last of the lines that import a library, before anything is done with it.

    Imports often stand further down too: in a script exported from a notebook above each cell's own work.
    """
    library = re.compile(rf"\b(?:tensorflow|{name.partition('.')[0]})\b".encode())
    last: cst.CSTNode | None = None
    first_run: cst.CSTNode | None = None
    environment: cst.CSTNode | None = None
    bound = ended = False
    for number, node in enumerate(_top(syntax)):
        imports = _imports(node) or _imports_in_branches(node)
        if imports or _sets_environment(syntax, node) or (number == 0 and _docstring(node)):
            last = node
            first_run = first_run if ended else node
            environment = environment if imports else node
            bound = bound or (imports and bool(library.search(syntax.text(node))))
        elif bound:
            break
        else:
            ended = True
    return last if bound else (environment or first_run)


def _last_import(syntax: Syntax, before: int) -> cst.CSTNode | None:
    """Return the last import above the first function or class, or the docstring, or what a library is told first."""
    last: cst.CSTNode | None = None
    for number, node in enumerate(_top(syntax)):
        if syntax.span(node).end > before:
            break
        if _imports(node) or _sets_environment(syntax, node) or (number == 0 and _docstring(node)):
            last = node
    return last


def _top(syntax: Syntax) -> Iterator[cst.CSTNode]:
    """Yield the statements above the first function or class."""
    import libcst as cst

    return itertools.takewhile(lambda node: not isinstance(node, (cst.FunctionDef, cst.ClassDef)), syntax.module.body)


def _first_statement(syntax: Syntax) -> int:
    """Return the line of the first statement, after a `#!` and comments at the top."""
    import libcst as cst

    if not syntax.module.body:
        return len(syntax.document.text)
    first: cst.CSTNode = syntax.module.body[0]
    if isinstance(first, (cst.FunctionDef, cst.ClassDef)) and first.decorators:
        first = first.decorators[0]
    return syntax.document.line_start(syntax.span(first).start)


def _imports(node: cst.CSTNode) -> bool:
    import libcst as cst

    return isinstance(node, cst.SimpleStatementLine) and any(
        isinstance(each, (cst.Import, cst.ImportFrom)) for each in node.body
    )


def _imports_in_branches(node: cst.CSTNode) -> bool:
    """Tell `try: import keras`, or the same with `if`, where nothing else is done."""
    import libcst as cst

    return isinstance(node, (cst.Try, cst.If)) and all(_imports(each) for each in node.body.body)


def _sets_environment(syntax: Syntax, node: cst.CSTNode) -> bool:
    """Tell `os.environ["KERAS_BACKEND"] = "jax"`, which has to come before Keras is imported; also below an `if`."""
    import libcst as cst

    if isinstance(node, (cst.If, cst.Else)):
        orelse = node.orelse if isinstance(node, cst.If) else None
        inside = [*node.body.body, *([orelse] if orelse is not None else [])]
        done = [each for each in inside if not _imports(each)]
        return bool(done) and all(_sets_environment(syntax, each) for each in done)
    if isinstance(node, cst.SimpleStatementLine):
        return all(_sets_environment(syntax, each) for each in node.body)
    return bool(_SETS_ENVIRONMENT.match(syntax.text(node)))


def _docstring(node: cst.CSTNode) -> bool:
    import libcst as cst

    return (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Expr)
        and isinstance(node.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )

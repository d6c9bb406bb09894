"""Edits become text: files in, files out, and the diff between them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from fitdoctor.edits import (
    Arguments,
    Chain,
    Decorate,
    Define,
    Earlier,
    Edit,
    Hoist,
    Insert,
    Listed,
    Remove,
    Rename,
    Spot,
    Swap,
    Unwrap,
    Wrap,
)
from fitdoctor.fixes import names
from fitdoctor.fixes.changes import arguments, calls, statements
from fitdoctor.fixes.document import CannotEdit, Document, Splice, opened
from fitdoctor.fixes.syntax import Syntax


def edited(documents: Mapping[str, Document], edits: Sequence[Edit]) -> dict[str, Document]:
    """Carry out all edits of a fix, or none of them: raises CannotEdit where one is not sure."""
    found = dict(documents)
    for edit in edits:
        if edit.path not in found:
            raise CannotEdit(f"the text of {edit.path} is not known")
        found[edit.path] = one(found[edit.path], edit)
    return found


def one(document: Document, edit: Edit) -> Document:
    """Carry out one edit."""
    code = _code(edit)
    line = _line(document, _start(edit, document))
    needed: list[str] = []
    written: list[str] = []
    for each in code:
        text, imports = names.spelled(each, document.text, line)
        written.append(text)
        needed += imports
    splices = _splices(edit, Syntax(document), document, written)
    if not splices:
        return document
    if needed:
        syntax, before = Syntax(document), min(each.start for each in splices)
        added = [each for new in dict.fromkeys(needed) for each in statements.imported(syntax, new, before)]
        splices = [*added, *splices]
    return document.spliced(splices)


def _splices(edit: Edit, syntax: Syntax, document: Document, written: list[str]) -> list[Splice]:
    at = document.offset(_spot(edit)) if not isinstance(edit, Insert) else 0
    if isinstance(edit, Arguments):
        pairs = [(name, code) for (name, _), code in zip(edit.give, written, strict=True)]
        return arguments.arguments(edit, syntax, at, pairs)
    if isinstance(edit, Chain):
        return calls.chained(syntax, at, written[0])
    if isinstance(edit, Rename):
        return calls.renamed(syntax, at, edit.name)
    if isinstance(edit, Wrap):
        return arguments.wrapped(edit, syntax, at, written[0])
    if isinstance(edit, Unwrap):
        return arguments.unwrapped(edit, syntax, at)
    if isinstance(edit, Listed):
        return arguments.listed(edit, syntax, at, written[0])
    if isinstance(edit, Swap):
        return calls.swapped(syntax, at, document.offset(edit.second))
    if isinstance(edit, Decorate):
        return statements.decorated(syntax, at, written[0])
    if isinstance(edit, Define):
        return statements.defined(syntax, at, edit.name, edit.parameters)
    if isinstance(edit, Remove):
        return statements.removed(syntax, at)
    if isinstance(edit, Hoist):
        return statements.hoisted(syntax, at)
    if isinstance(edit, Earlier):
        return statements.earlier(syntax, at, document.offset(edit.before))
    return statements.inserted(syntax, written[0], edit.code)


def _code(edit: Edit) -> list[str]:
    if isinstance(edit, Arguments):
        return [code for _, code in edit.give]
    if isinstance(edit, Listed):
        return [edit.item]
    if isinstance(edit, (Chain, Wrap, Decorate, Insert)):
        return [edit.code]
    return []


def _spot(edit: Edit) -> Spot:
    if isinstance(edit, (Arguments, Chain, Rename, Wrap, Unwrap, Listed)):
        return edit.call
    if isinstance(edit, Swap):
        return edit.first
    if isinstance(edit, (Decorate, Define)):
        return edit.function
    if isinstance(edit, (Remove, Hoist, Earlier)):
        return edit.statement
    raise TypeError(edit)


def _start(edit: Edit, document: Document) -> int:
    """Return where an edit is made, as the document stands now."""
    if isinstance(edit, Insert):
        return statements.below_imports(Syntax(document), edit.code)
    return document.offset(_spot(edit))


def _line(document: Document, at: int) -> int:
    return document.text[:at].replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1


def diff(before: bytes, after: bytes, label: str) -> str:
    """Return a unified diff that `patch` and `git apply` understand, empty where nothing changes."""
    told = difflib.unified_diff(_lines(before), _lines(after), fromfile=f"a/{label}", tofile=f"b/{label}", n=3)
    return "".join(each if each.endswith("\n") else f"{each}\n\\ No newline at end of file\n" for each in told)


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "surrogateescape")
    parts = text.split("\n")
    return [f"{each}\n" for each in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


__all__ = ["CannotEdit", "diff", "edited", "one", "opened"]

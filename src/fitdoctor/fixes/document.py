"""A source file as bytes, and edits of it that leave every other byte alone."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fitdoctor.edits import Spot

_NEWLINE = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class CannotEdit(Exception):  # noqa: N818 - the name says what was found
    """No sure edit exists; says why, in words that follow "because"."""


@dataclass(frozen=True, slots=True)
class Splice:
    """Put other bytes in the place of these; an insertion where both ends are one."""

    start: int
    end: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Document:
    """A file while it is edited."""

    text: bytes
    """UTF-8, whatever the file has; without a byte order mark."""
    encoding: str
    bom: bool
    origin: bytes
    """The text before any edit: places are counted in it."""
    history: tuple[tuple[Splice, ...], ...] = ()

    def offset(self, spot: Spot) -> int:
        """Return where a place of the original is now."""
        starts = [0, *(each.end() for each in _NEWLINE.finditer(self.origin))]
        if not 1 <= spot.line <= len(starts):
            raise CannotEdit(f"it has no line {spot.line}")
        here = starts[spot.line - 1] + spot.column
        for splices in self.history:
            here = _moved(here, splices)
        return here

    def spliced(self, splices: Iterable[Splice]) -> Document:
        """Carry splices out; the result must be Python still."""
        # In the order given where several stand at one place.
        ordered = sorted(splices, key=lambda each: (each.start, each.end))
        text, end = b"", 0
        for each in ordered:
            if each.start < end:
                raise CannotEdit("two changes overlap")
            text += self.text[end : each.start] + each.text
            end = each.end
        text += self.text[end:]
        check_syntax(text)
        return replace(self, text=text, history=(*self.history, tuple(ordered)))

    @property
    def newline(self) -> bytes:
        """The line ending of the file: that of most of its lines."""
        found = _NEWLINE.findall(self.origin)
        return max((b"\n", b"\r\n", b"\r"), key=found.count)

    def line_start(self, at: int) -> int:
        """Return where the line of a place begins."""
        found = [each.end() for each in _NEWLINE.finditer(self.text) if each.end() <= at]
        return found[-1] if found else 0

    def line_end(self, at: int) -> int:
        """Return where the line of a place ends, before its newline."""
        found = _NEWLINE.search(self.text, at)
        return found.start() if found else len(self.text)

    def next_line(self, at: int) -> int:
        """Return where the next line begins; the end of the text after the last one."""
        found = _NEWLINE.search(self.text, at)
        return found.end() if found else len(self.text)

    def indent(self, at: int) -> bytes:
        """Return the white space that the line of a place begins with."""
        start = self.line_start(at)
        line = self.text[start : self.line_end(start)]
        return line[: len(line) - len(line.lstrip(b" \t"))]

    @property
    def data(self) -> bytes:
        """The bytes to write."""
        try:
            return (_BOM if self.bom else b"") + self.text.decode("utf-8").encode(self.encoding)
        except UnicodeEncodeError as error:  # what is added is ASCII: never seen
            raise CannotEdit(f"its encoding {self.encoding} cannot hold the change") from error


def _moved(here: int, splices: tuple[Splice, ...]) -> int:
    shift = 0
    for each in splices:
        if here >= each.end:
            shift += len(each.text) - (each.end - each.start)
        elif here > each.start:
            raise CannotEdit("another fix changes the same place")
    return here + shift


def opened(data: bytes) -> Document:
    """Read a file as Python does; raises CannotEdit where that is not possible without loss."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        bom = encoding == "utf-8-sig"
        encoding = "utf-8" if bom else encoding
        body = data[len(_BOM) :] if bom else data
        text = body.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise CannotEdit(f"it is not text that Python can read: {_first_line(error)}") from error
    if text.encode(encoding) != body:
        raise CannotEdit(f"its encoding {encoding} does not give the same bytes back")
    source = text.encode("utf-8")
    check_syntax(source)
    return Document(source, encoding, bom, source)


def check_syntax(text: bytes) -> None:
    """Refuse what is not Python."""
    try:
        # As text: a declared encoding was taken care of already.
        ast.parse(text.decode("utf-8"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CannotEdit(f"it is not Python that can be read: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    line = getattr(error, "lineno", None)
    said = (str(getattr(error, "msg", "") or error).splitlines() or [type(error).__name__])[0]
    return f"{said} (line {line})" if line else said

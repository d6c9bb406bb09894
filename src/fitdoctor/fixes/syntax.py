"""The concrete syntax of a document: where calls, arguments, statements and their commas stand, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fitdoctor.fixes.document import CannotEdit, Document

if TYPE_CHECKING:
    import libcst as cst


@dataclass(frozen=True, slots=True)
class Span:
    """From here to there, in bytes."""

    start: int
    end: int


class Syntax:
    """A document, parsed without loss."""

    def __init__(self, document: Document) -> None:
        import libcst as cst
        from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

        text = document.text.decode("utf-8")
        try:
            module = cst.parse_module(text)
        except (cst.ParserSyntaxError, RecursionError) as error:
            raise CannotEdit("its syntax is not understood") from error
        if module.code != text:
            raise CannotEdit("its layout cannot be kept (a form feed, or line endings that differ)")
        self.document = document
        self.module = module
        found = MetadataWrapper(module, unsafe_skip_copy=True).resolve(ByteSpanPositionProvider)
        self._spans = {node: Span(span.start, span.start + span.length) for node, span in found.items()}
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {child: node for node in self._spans for child in node.children}

    def span(self, node: cst.CSTNode) -> Span:
        """Return where a node stands, without parentheses around it."""
        return self._spans[node]

    def text(self, node: cst.CSTNode) -> bytes:
        """Return how a node is written."""
        span = self.span(node)
        return self.document.text[span.start : span.end]

    def all(self, kind: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """Yield the nodes of a kind."""
        return (node for node in self._spans if isinstance(node, kind))

    def call(self, at: int) -> cst.Call:
        """Return the call of what has a name that ends here."""
        import libcst as cst

        for node in self.all(cst.Call):
            assert isinstance(node, cst.Call)
            name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
            if isinstance(name, cst.Name) and self.span(name).end == at:
                return node
        raise CannotEdit("the call is not where it was")

    def brackets(self, call: cst.Call) -> Span:
        """Return where the arguments of a call may stand: after `(` and before `)`."""
        start = self.document.text.index(b"(", self.whole(call.func).end)
        return Span(start + 1, self.span(call).end - 1)

    def whole(self, node: cst.CSTNode) -> Span:
        """Return where an expression stands, with the parentheses around it."""
        span, text = self.span(node), self.document.text
        start, end = span.start, span.end
        for _ in getattr(node, "lpar", ()):
            start = text.rindex(b"(", 0, start)
            end = text.index(b")", end) + 1
        return Span(start, end)

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the line of simple statements, or the compound statement, around a node."""
        import libcst as cst

        here: cst.CSTNode | None = node
        while here is not None and not isinstance(here, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            here = self.parents.get(here)
        if here is None:
            raise CannotEdit("it stands in no statement")
        return here

    def statement_at(self, at: int) -> cst.SimpleStatementLine:
        """Return the simple statement that begins here and is alone in its line."""
        import libcst as cst

        for node in self.all(cst.SimpleStatementLine):
            assert isinstance(node, cst.SimpleStatementLine)
            if self.span(node).start == at:
                if len(node.body) != 1:
                    raise CannotEdit("several statements stand in one line")
                return node
        raise CannotEdit("the statement is not alone in its line")

    def function_at(self, at: int) -> cst.FunctionDef:
        """Return the function whose `def` begins here."""
        import libcst as cst

        for node in self.all(cst.FunctionDef):
            assert isinstance(node, cst.FunctionDef)
            words = self.document.text[at : self.span(node.name).start].split()
            if words in ([b"def"], [b"async", b"def"]) and at < self.span(node.name).start:
                return node
        raise CannotEdit("the function is not where it was")

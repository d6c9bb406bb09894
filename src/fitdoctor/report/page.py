"""Lines on a terminal that may be narrow, colourless or not Unicode, from strings that may be hostile.

Everything shown goes through `Page`: control and direction-changing characters become visible escapes,
characters the terminal cannot encode are replaced, nothing is ever read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from fitdoctor.report.characters import encodable, harmless

Piece = str | tuple[str, str]
"""A string, or a string with a style."""

NARROWEST = 40
"""Below this many columns lines are left to the terminal to break."""


class Page:
    """A console seen as lines."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = max(console.width, NARROWEST)
        self.encoding = console.encoding
        self.unicode = encodable(self.encoding, "█▓▒░│·…▚▞")

    def glyph(self, unicode: str, plain: str) -> str:
        """Choose between a drawing character and its ASCII stand-in."""
        return unicode if self.unicode else plain

    def clean(self, text: str) -> str:
        """Return the string as this terminal can show it."""
        return harmless(text, self.encoding)

    def text(self, *pieces: Piece) -> Text:
        """Join strings and styled strings, none of them read as markup."""
        text = Text()
        for piece in pieces:
            content, style = (piece, "") if isinstance(piece, str) else piece
            text.append(self.clean(content), style=style)
        return text

    def fit(self, text: str, width: int) -> str:
        """Cut a string to a number of columns, saying that it was cut."""
        text = self.clean(text)
        if cell_len(text) <= width:
            return text
        mark = self.glyph("…", "..")
        pieces = chop_cells(text, max(width - len(mark), 1))
        return (pieces[0] if pieces else "") + mark

    def line(self, *pieces: Piece) -> None:
        """Print one line as it is."""
        text = self.text(*pieces)
        text.rstrip()
        self.console.print(text, soft_wrap=True, highlight=False, markup=False, emoji=False)

    def blank(self) -> None:
        """Print an empty line."""
        self.line()

    def tail(self, text: str, width: int) -> str:
        """Cut a path to a number of columns, keeping its end."""
        text = self.clean(text)
        if cell_len(text) <= width:
            return text
        mark = self.glyph("…", "..")
        while cell_len(text) > max(width - len(mark), 1):
            text = text[1:]
        return mark + text

    def paragraph(self, *pieces: Piece, indent: int = 0, hang: int | None = None, lead: Piece = "") -> None:
        """Print wrapped text after a `lead`; lines that follow hang by `hang` columns, or below the text."""
        head = self.text(lead)
        start = indent + head.cell_len
        hang = start if hang is None else hang
        # Wrapped as if every line had the deeper of the two indents: simple, and never too wide.
        room = max(self.width - max(start, hang), 8)
        for number, text in enumerate(self.text(*pieces).wrap(self.console, room, overflow="fold")):
            text.rstrip()
            margin = Text(" " * hang) if number else Text(" " * indent) + head
            self.console.print(margin + text, soft_wrap=True, highlight=False, markup=False, emoji=False)

    def entry(self, label: str, *pieces: Piece, style: str = "", column: int = 16) -> None:
        """Print a label and wrapped text beside it, or below it where there is no room."""
        if self.width < 3 * column:
            self.paragraph((label, style))
            self.paragraph(*pieces, indent=2)
        else:
            self.paragraph(*pieces, lead=(label.ljust(column), style))

    def heading(self, title: str, *rest: Piece) -> None:
        """Start a section."""
        self.blank()
        self.paragraph((title, "bold"), *rest)

    def table(self, rows: Sequence[Sequence[Piece]], right: Callable[[int], bool], *, indent: int = 2) -> None:
        """Print aligned columns; the last one is cut where it does not fit."""
        contents = [[self.clean(cell if isinstance(cell, str) else cell[0]) for cell in row] for row in rows]
        widths = [max(map(cell_len, column)) for column in zip(*contents, strict=True)]
        for row, cells in zip(rows, contents, strict=True):
            pieces: list[Piece] = [" " * indent]
            used = indent
            for index, (cell, content) in enumerate(zip(row, cells, strict=True)):
                content = self.fit(content, max(self.width - used, 1))
                gap = " " * (widths[index] - cell_len(content))
                style = "" if isinstance(cell, str) else cell[1]
                pieces += [gap, (content, style)] if right(index) else [(content, style), gap]
                pieces.append("  ")
                used += widths[index] + 2
            self.line(*pieces)

"""A Jupyter notebook as one Python text: its code cells in order, magics left out, lines mapped back to cells."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MAGIC = re.compile(r"^(\s*)(?:[%!?]|[^\s#'\"]*\?{1,2}\s*$)")
_ASSIGNED = re.compile(r"^(\s*[\w., ]+=\s*)[%!].*")
_CELL_MAGIC = re.compile(r"^\s*%%(\w+)")
_OF_PYTHON = frozenset({"capture", "fitdoctor", "prun", "time", "timeit", "wandb"})
"""Cell magics whose cell is Python of this very notebook."""


class NotANotebook(ValueError):  # noqa: N818 - says what was found
    """The file is no notebook, or one without cells."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of code: its number in the notebook, counted from 1, and where its first line is in the whole text."""

    number: int
    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook as Python."""

    text: str
    cells: tuple[Cell, ...]
    broken: tuple[tuple[int, int, str], ...]
    """Cells that are no Python: number, line, reason."""

    def cell(self, line: int) -> Cell:
        """Return the cell that a line of the whole text belongs to."""
        return next(cell for cell in reversed(self.cells) if cell.first <= line)


def read(content: str) -> Notebook:
    """Read the JSON of a notebook, of format 3 or later."""
    try:
        data = json.loads(content)
    except ValueError as error:
        raise NotANotebook(f"expected a notebook, found no JSON: {error}") from error
    cells: list[Cell] = []
    broken: list[tuple[int, int, str]] = []
    text: list[str] = []
    for number, source in _code(data):
        lines = source.split("\n")
        code, fault = _python(source)
        if fault is not None:
            broken.append((number, *fault))
        cells.append(Cell(number, len(text) + 1, tuple(lines)))
        text += code.split("\n") if fault is None else [""] * len(lines)
    return Notebook("\n".join(text), tuple(cells), tuple(broken))


def _code(data: Any) -> Iterator[tuple[int, str]]:
    sheets = data.get("worksheets") if isinstance(data, dict) else None
    sheet = sheets[0] if isinstance(sheets, list) and sheets else data
    cells = sheet.get("cells") if isinstance(sheet, dict) else None
    if not isinstance(cells, list):
        raise NotANotebook("expected a notebook, found JSON without cells")
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", cell.get("input", ""))
        if isinstance(source, list):
            source = "".join(line for line in source if isinstance(line, str))
        if isinstance(source, str):
            yield number, source.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def _python(source: str) -> tuple[str, tuple[int, str] | None]:
    """Return the cell without magics, on the same lines, and why it is no Python, if it is not."""
    if _fault(source) is None:
        return source, None
    lines = source.split("\n")
    cell_magic = next((_CELL_MAGIC.match(line) for line in lines if line.strip()), None)
    if cell_magic and cell_magic[1] not in _OF_PYTHON:
        return "\n" * (len(lines) - 1), None
    # Line by line, where Python stumbles: a line that only looks like a magic is part of a longer expression.
    while (fault := _fault("\n".join(lines))) is not None:
        place = fault[0] - 1
        plain = _without_magic(lines[place]) if place < len(lines) else None
        if plain is None:
            break
        last = place
        while lines[last].rstrip().endswith("\\") and last + 1 < len(lines):
            last += 1
        lines[place : last + 1] = [plain, *[""] * (last - place)]
    return "\n".join(lines), fault


def _without_magic(line: str) -> str | None:
    """Return what stays of a line with a magic or a shell command; None where there is none in it."""
    if _MAGIC.match(line):
        return f"{line[: len(line) - len(line.lstrip())]}pass"
    assigned = _ASSIGNED.match(line)
    return f"{assigned[1]}None" if assigned else None


def _fault(code: str) -> tuple[int, str] | None:
    try:
        ast.parse(code)
    except SyntaxError as error:
        return error.lineno or 1, error.msg
    except (ValueError, RecursionError, MemoryError) as error:
        return 1, str(error) if isinstance(error, ValueError) else "it is nested too deeply for Python to parse"
    return None

"""A file on disk as Python text: decoded as Python would, notebooks as their cells."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass

from fitdoctor.checking import notebook
from fitdoctor.checking.notebook import Notebook
from fitdoctor.model import Unchecked

_LARGEST = 20_000_000
"""Bytes; no source that a person wrote is longer, and a parsed one takes a hundred times that in memory."""


@dataclass(frozen=True, slots=True)
class Text:
    """What a file says, and the notebook it came from, if it did."""

    path: str
    text: str
    notebook: Notebook | None = None


def read(path: str) -> Text | Unchecked:
    """Read a file, or say why that is not possible."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        return Unchecked(path, None, f"cannot be read: {error.strerror or error}")
    return understood(path, data)


def understood(path: str, data: bytes) -> Text | Unchecked:
    """Read what a file holds, or say why that is not possible."""
    if len(data) > _LARGEST:
        return Unchecked(path, None, "is larger than 20 MB: no source that a person wrote")
    try:
        if path.endswith(".ipynb"):
            book = notebook.read(data.decode("utf-8-sig"))
            return Text(path, book.text, book)
        return Text(path, _decoded(data))
    except notebook.NotANotebook as error:
        return Unchecked(path, None, str(error))
    except (UnicodeDecodeError, SyntaxError, LookupError, RecursionError) as error:
        return Unchecked(path, None, f"cannot be decoded: {error}")


def _decoded(data: bytes) -> str:
    errors = "strict"
    if b"coding" in data[:400]:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        data.decode(encoding)
        # Python reads the bytes again, as the file itself says that they are to be read.
        errors = "strict" if encoding.startswith("utf-8") else "surrogateescape"
    text = data.decode("utf-8-sig", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

"""Files that are read as something else, for one process: a fix is run before it is written.

`fitdoctor` starts such a process with `boot/overlaid.py` in front of the script.  The files on disk stay as they are;
what Python compiles, what `inspect` (and with it AutoGraph) reads and what the capture keeps is the other text.
"""

from __future__ import annotations

import base64
import importlib.abc
import importlib.machinery
import json
import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import decode_source
from types import CodeType, ModuleType

VARIABLE = "FITDOCTOR_OVERLAY"
"""Names the file that tells the child about them."""
LAUNCHER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "boot", "overlaid.py")

_files: dict[str, bytes] = {}


def dumps(files: Mapping[str, bytes]) -> str:
    """Write down what files are to be read as, by where they really lie."""
    return json.dumps({os.path.realpath(path): base64.b64encode(data).decode() for path, data in files.items()})


def install(text: str) -> None:
    """Read these files so from now on."""
    _files.update({path: base64.b64decode(data) for path, data in json.loads(text).items()})
    sys.meta_path.insert(0, Finder())


def data_of(path: str) -> bytes | None:
    """Return what a file is to be read as; None: as it is."""
    return _files.get(os.path.realpath(path)) if _files else None


def code_of(path: str, data: bytes) -> CodeType:
    """Compile a file's other text, and let `inspect` find it."""
    text = decode_source(data)
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    return compile(data, path, "exec", dont_inherit=True)


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from the other text of its file; compiled files are neither read nor written."""

    def get_data(self, path: str) -> bytes:
        """Read the other text."""
        other = data_of(path)
        return other if other is not None else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType | None:
        """Compile it."""
        path = self.get_filename(fullname)
        return code_of(path, self.get_data(path))


class Finder(importlib.abc.MetaPathFinder):
    """Finds modules as Python does, and hands those with another text to their loader."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module whose file has another text."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or data_of(spec.origin) is None:
            return None
        spec.loader = Loader(fullname, spec.origin)
        return spec

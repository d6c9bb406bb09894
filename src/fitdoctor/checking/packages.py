"""What names stand for that a file takes from other files of its own package: modules of frameworks, and their classes.

    compat.py    import tensorflow as tf
    data.py      from .compat import tf                 tf is tensorflow
                 class Base(keras.utils.PyDataset): ...
    train.py     from data import Base                  a class made of it is a PyDataset

Only import statements and the first lines of classes are read, with patterns: no file is parsed for another one.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator

_FROM = re.compile(r"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#(]+)", re.MULTILINE)
_IMPORT = re.compile(r"^import[ \t]+([\w.]+)(?:[ \t]+as[ \t]+(\w+))?[ \t]*$", re.MULTILINE)
_CLASS = re.compile(r"^class[ \t]+(\w+)\([ \t]*([\w.]+)[ \t]*[,)]", re.MULTILINE)
_NAME = re.compile(r"(\w+)(?:\s+as\s+(\w+))?\s*$")
_FRAMEWORKS = ("keras", "tensorflow", "tf_keras", "torch", "jax", "numpy")
_PUBLIC = ("keras.utils.", "keras.callbacks.", "keras.layers.Layer", "keras.Model", "torch.utils.data.")
"""Classes that rules know by what they are made of."""


def given(path: str, text: str) -> dict[str, str]:
    """Return what names of a file stand for that it takes from files beside it."""
    return dict(_taken(path, _FROM.findall(text))) if "from" in text else {}


def _taken(path: str, statements: list[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    folder = os.path.dirname(path) or "."
    for dots, module, names in statements:
        file = _file(folder, len(dots), module)
        known = _exported(file) if file is not None else None
        if known:
            yield from ((local, known[name]) for name, local in _names(names) if name in known)


_known: dict[str, dict[str, str]] = {}


def forget() -> None:
    """Forget what other files said: they may have changed, and the working folder too."""
    _known.clear()
    _file.cache_clear()
    _root.cache_clear()


def _exported(path: str) -> dict[str, str]:
    """Return the framework's things that a file gives names to; of files that import each other, one comes empty."""
    if path not in _known:
        _known[path] = {}
        _known[path] = _read(path)
    return _known[path]


def _read(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return {}
    statements = _FROM.findall(text)
    known = dict(_taken(path, statements))
    for name, local in _IMPORT.findall(text):
        if name.split(".")[0] in _FRAMEWORKS:
            known[local or name.split(".")[0]] = name if local else name.split(".")[0]
    for dots, module, names in statements:
        if not dots and module.split(".")[0] in _FRAMEWORKS:
            known.update({local: f"{module}.{name}" for name, local in _names(names) if local not in known})
    for name, base in _CLASS.findall(text):
        first, _, rest = base.partition(".")
        whole = ".".join(filter(None, (known.get(first, first), rest)))
        public = whole.replace("tensorflow.keras.", "keras.").replace("tf_keras.", "keras.")
        if public.startswith(_PUBLIC):
            known[name] = public
        else:
            known.pop(name, None)
    return known


def _names(text: str) -> Iterator[tuple[str, str]]:
    lines = (line.partition("#")[0] for line in text.strip("()").split("\n"))
    for part in " ".join(lines).replace("\\", " ").split(","):
        found = _NAME.match(part.strip())
        if found:
            yield found[1], found[2] or found[1]


@functools.lru_cache(maxsize=16384)
def _file(folder: str, dots: int, module: str) -> str | None:
    """Return the file of a module: relative to the folder, of the same package, or beside a script."""
    if dots:
        bases = [os.path.join(folder, *[os.pardir] * (dots - 1))]
    else:
        root, package = _root(folder)
        first = module.split(".")[0]
        bases = [root] if first == package else [] if package or first in _FRAMEWORKS else [folder]
    for base in bases:
        stem = os.path.join(base, *module.split(".")) if module else base
        for file in (f"{stem}.py", os.path.join(stem, "__init__.py")):
            if os.path.isfile(file):
                return os.path.normpath(file)
    return None


@functools.lru_cache(maxsize=4096)
def _root(folder: str) -> tuple[str, str]:
    """Return the folder that a package lies in, and the package's name; no name where there is none."""
    here, package = os.path.abspath(folder), ""
    while os.path.isfile(os.path.join(here, "__init__.py")):
        here, package = os.path.split(here)
    return here, package

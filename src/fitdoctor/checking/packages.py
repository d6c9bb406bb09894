"""What names stand for that a file takes from other files of its own package: modules of frameworks, and their classes.

    compat.py    import tensorflow as tf
    data.py      from .compat import tf                 tf is tensorflow
                 class Base(keras.utils.PyDataset): ...
                 def load(x): tf.py_function(...)
    train.py     from data import Base                  a class made of it is a PyDataset
                 import data
                 dataset.map(data.load)                 as good as a py_function

Only import statements, the first lines of classes and calls of Python from a graph are read, with patterns: no file is
parsed for another one.
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
_DEF = re.compile(r"^def[ \t]+(\w+)\((.*?)(?=^[^\s)#]|\Z)", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"(?<![\w.])((?:\w+\.)*(?:py_function|numpy_function|py_func))\(")
_SAID = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''|#[^\n]*", re.DOTALL)
"""Docstrings and comments."""
_FRAMEWORKS = ("keras", "tensorflow", "tf_keras", "torch", "jax", "numpy")
_PUBLIC = ("keras.utils.", "keras.callbacks.", "keras.layers.Layer", "keras.Model", "torch.utils.data.")
"""Classes that rules know by what they are made of."""


def given(path: str, text: str) -> dict[str, str]:
    """Return what names of a file stand for that it takes from files beside it."""
    if "import" not in text:
        return {}
    statements = _FROM.findall(text)
    return {**dict(_of_modules(path, text, statements)), **dict(_taken(path, statements))}


def _taken(path: str, statements: list[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    folder = os.path.dirname(path) or "."
    for dots, module, names in statements:
        file = _file(folder, len(dots), module)
        known = _exported(file) if file is not None else None
        if known:
            yield from ((local, known[name]) for name, local in _names(names) if name in known)


def _of_modules(path: str, text: str, statements: list[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    """Return, as `module.name`, what modules give names to that are themselves imported."""
    folder = os.path.dirname(path) or "."
    modules = [(0, name, local or name) for name, local in _IMPORT.findall(text) if local or "." not in name]
    for dots, package, names in statements:
        inside = f"{package}." if package else ""
        modules += [(len(dots), f"{inside}{name}", local) for name, local in _names(names)]
    for level, module, local in modules:
        file = _file(folder, level, module)
        known = _exported(file) if file is not None else None
        if known:
            yield local, local
            yield from ((f"{local}.{name}", whole) for name, whole in known.items())


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
        public = _whole(base, known).replace("tensorflow.keras.", "keras.").replace("tf_keras.", "keras.")
        if public.startswith(_PUBLIC):
            known[name] = public
        else:
            known.pop(name, None)
    if "py_func" in text or "numpy_function" in text:
        known.update(_wrapped(text, {**dict(_of_modules(path, text, statements)), **known}))
    return known


def _wrapped(text: str, known: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Return the functions of a file that call Python from a graph, as if they were that very call."""
    for name, body in _DEF.findall(text):
        calls = (_whole(called, known) for called in _PYTHON.findall(_SAID.sub("", body)))
        whole = next((each for each in calls if each.startswith("tensorflow.")), None)
        if whole is not None:
            yield name, whole


def _whole(name: str, known: dict[str, str]) -> str:
    """Say in full what a dotted name stands for."""
    first, _, rest = name.partition(".")
    second, _, more = rest.partition(".")
    if f"{first}.{second}" in known:
        first, rest = f"{first}.{second}", more
    return ".".join(filter(None, (known.get(first, first), rest)))


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

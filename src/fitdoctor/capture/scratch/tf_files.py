"""TensorFlow's own file system functions (`tf.io.gfile` and all that is built on it), which are C++."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

from fitdoctor.capture.scratch.names import Names
from fitdoctor.capture.scratch.patches import Patches

MODULE = "tensorflow.python.lib.io._pywrap_file_io"
OPS = "tensorflow.python.ops.gen_io_ops"

_READ = ("FileExists", "ReadFileToString", "IsDirectory", "Stat", "HasAtomicMove")


def install(module_name: str, module: Any, names: Names, patches: Patches) -> None:
    """Hook one of the two modules."""
    if module_name == OPS:
        _put(patches, module, "matching_files", functools.partial(_matching_op, names))
        return
    for name in _READ:
        _put(patches, module, name, functools.partial(_reading, names))
    for name, make in (
        ("GetChildren", _children),
        ("GetMatchingFiles", _matching),
        ("CreateDir", _create),
        ("RecursivelyCreateDir", _create_all),
        ("DeleteFile", _delete),
        ("DeleteRecursively", _delete_all),
        ("CopyFile", _copy),
        ("RenameFile", _rename),
    ):
        _put(patches, module, name, functools.partial(make, names))
    for name, make in (("WritableFile", _writable), ("BufferedInputStream", _readable)):
        _put(patches, getattr(module, name), "__init__", functools.partial(make, names))


def _put(patches: Patches, holder: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(holder, name, None)
    if original is not None:
        patches.put(holder, name, functools.wraps(original)(make(original)))


def _reading(names: Names, original: Any) -> Any:
    def hook(path: Any, *args: Any, **kwargs: Any) -> Any:
        return original(names.every(path, names.read) if names.files.active else path, *args, **kwargs)

    return hook


def _readable(names: Names, original: Any) -> Any:
    def hook(self: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        original(self, names.every(path, names.read) if names.files.active else path, *args, **kwargs)

    return hook


def _writable(names: Names, original: Any) -> Any:
    def hook(self: Any, path: Any, mode: Any, *args: Any, **kwargs: Any) -> None:
        keep = b"w" not in mode if isinstance(mode, bytes) else "w" not in mode
        flags = os.O_WRONLY | os.O_CREAT | (0 if keep else os.O_TRUNC)
        original(self, names.every(path, functools.partial(names.make, flags=flags)), mode, *args, **kwargs)

    return hook


def _layered(names: Names, path: Any) -> str | None:
    """Return the logical path of a local name that the layers have a say in, None for any other."""
    text = names.local(os.fsdecode(path))
    if not text:
        return None
    logical = names.files.logical(text)
    return None if names.files.left_alone(logical) else logical


def _children(names: Names, original: Any) -> Any:
    def hook(path: Any) -> Any:
        logical = _layered(names, path) if names.files.active else None
        if logical is None or names.files.kind(logical) is None:
            return original(names.every(path, names.read))
        return list(names.files.names(logical))

    return hook


def _merged(names: Names, pattern: str, find: Callable[[str], list[str]]) -> list[str]:
    """Match in both layers: without what the script has removed, and with the names the script expects."""
    files = names.files
    text = names.local(pattern)
    if text is None:
        return find(pattern)
    found = {path for path in find(text) if not files.hidden(files.logical(path, follow=False))}
    fixed = text[: min((text.index(c) for c in "*?[" if c in text), default=len(text))]
    folder = os.path.dirname(fixed)
    absolute = files.logical(folder or ".").rstrip("/")
    for base in files._bases:
        for path in find(base + absolute + "/" + text[len(folder) :].lstrip("/")):
            rest = files.shown(path)[len(absolute) :].lstrip("/")
            found.add(os.path.join(folder, rest))
    return sorted(found)


def _matching(names: Names, original: Any) -> Any:
    def hook(pattern: Any) -> Any:
        if not names.files.active:
            return original(pattern)

        def find(text: str) -> list[str]:
            return [os.fsdecode(path) for path in original(os.fsencode(text))]

        return _merged(names, os.fsdecode(pattern), find)

    return hook


def _matching_op(names: Names, original: Any) -> Any:
    def hook(pattern: Any, name: Any = None) -> Any:
        found = original(pattern, name=name)
        if not names.files.active or not hasattr(found, "numpy"):
            return found
        patterns = names.every(pattern, lambda text: text)
        content = patterns.numpy() if hasattr(patterns, "numpy") else patterns
        several = content.ravel().tolist() if hasattr(content, "ravel") else content
        several = several if isinstance(several, list) else [several]

        def find(text: str) -> list[str]:
            return [os.fsdecode(path) for path in original(text).numpy().tolist()]

        paths = {path for one in several for path in _merged(names, os.fsdecode(one), find)}
        return original([]) if not paths else _constant(sorted(paths))

    return hook


def _constant(values: list[str]) -> Any:
    return sys.modules["tensorflow.python.framework.constant_op"].constant(values)


def _create(names: Names, original: Any) -> Any:
    def hook(path: Any) -> None:
        logical = _layered(names, path)
        if logical is None or names.files.kind(logical) is not None:
            original(names.every(path, names.read))
        else:
            os.mkdir(logical)

    return hook


def _create_all(names: Names, original: Any) -> Any:
    def hook(path: Any) -> None:
        logical = _layered(names, path)
        if logical is None or names.files.kind(logical) is not None:
            original(names.every(path, names.read if logical else names.write))
        else:
            os.makedirs(logical, exist_ok=True)

    return hook


def _delete(names: Names, original: Any) -> Any:
    def hook(path: Any) -> None:
        logical = _layered(names, path)
        if logical is None or names.files.kind(logical) is None:
            original(names.every(path, names.read))
        else:
            os.unlink(logical)

    return hook


def _delete_all(names: Names, original: Any) -> Any:
    def hook(path: Any) -> None:
        logical = _layered(names, path)
        if logical is None or names.files.kind(logical) is None:
            original(names.every(path, names.read))
        elif os.path.isdir(logical):
            shutil.rmtree(logical)
        else:
            os.unlink(logical)

    return hook


def _copy(names: Names, original: Any) -> Any:
    def hook(src: Any, dst: Any, overwrite: bool) -> None:
        source, target = names.every(src, names.read), names.every(dst, names.read)
        logical = _layered(names, dst)
        if logical is not None and names.files.kind(logical) is not None and not overwrite:
            original(source, target, False)
        else:
            original(source, names.every(dst, names.make), True)

    return hook


def _rename(names: Names, original: Any) -> Any:
    def hook(src: Any, dst: Any, overwrite: bool) -> None:
        source, target = _layered(names, src), _layered(names, dst)
        if source is None or target is None:
            original(names.every(src, names.read), names.every(dst, names.write), overwrite)
            return
        taken = names.files.kind(target) is not None and not overwrite
        if names.files.kind(source) is None or taken:
            original(names.every(src, names.read), names.every(dst, names.read), overwrite)
        else:
            os.replace(source, target)

    return hook

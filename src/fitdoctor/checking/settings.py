"""What to look for: `[tool.fitdoctor.check]` of pyproject.toml, and the command line, which comes first.

[tool.fitdoctor.check]
select = ["input", "eager-step"]          # rules or families; by default all
ignore = ["flatten-blowup"]
exclude = ["vendored", "notebooks/*.ipynb"]

[tool.fitdoctor.check.per-file-ignores]
"tests/*" = ["eager-step"]
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fitdoctor.checking.paths import matches
from fitdoctor.errors import UsageError

_LISTS = ("select", "ignore", "exclude")
_PER_FILE = "per-file-ignores"


@dataclass(frozen=True, slots=True)
class Settings:
    """What to look for, and where not to look."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    root: str = "."
    """What the patterns are relative to."""

    def wants(self, rule: str, family: str) -> bool:
        """Tell whether a rule is asked at all."""
        names = {rule, family}
        return (not self.select or bool(names & {*self.select})) and not names & {*self.ignore}

    def ignored_in(self, path: str) -> frozenset[str]:
        """Return the rules and families that are ignored in this file."""
        return frozenset(
            name for pattern, names in self.per_file.items() if matches(path, pattern, self.root) for name in names
        )


def find(paths: Sequence[str]) -> Path | None:
    """Return the nearest pyproject.toml at or above everything that is to be checked."""
    there = [os.path.abspath(path) for path in paths if os.path.exists(path)] or [os.getcwd()]
    try:
        base = Path(os.path.commonpath([path if os.path.isdir(path) else os.path.dirname(path) for path in there]))
    except ValueError:  # on several drives
        base = Path.cwd()
    return next((file for each in (base, *base.parents) if os.path.isfile(file := each / "pyproject.toml")), None)


def load(file: Path | None, families: Mapping[str, str]) -> Settings:
    """Read the settings of a project; `families` says the family of every rule."""
    if file is None:
        return Settings(root=os.getcwd())
    table = _table(file)
    unknown = set(table) - {*_LISTS, _PER_FILE}
    if unknown:
        raise UsageError(
            f"{file}: [tool.fitdoctor.check] has no setting {sorted(unknown)[0]!r}",
            do=f"it has {', '.join((*_LISTS, _PER_FILE))}",
        )
    lists = {name: _words(table.get(name, []), f"{file}: {name}") for name in _LISTS}
    per_file = table.get(_PER_FILE, {})
    if not isinstance(per_file, dict):
        raise UsageError(f"{file}: expected a table of patterns for {_PER_FILE}, found {per_file!r}")
    ignores = {pattern: _words(names, f"{file}: {_PER_FILE}") for pattern, names in per_file.items()}
    for names in (lists["select"], lists["ignore"], *ignores.values()):
        check_names(names, families, str(file))
    return Settings(**lists, per_file=ignores, root=str(file.parent))


def check_names(names: Sequence[str], families: Mapping[str, str], where: str) -> None:
    """Refuse what is neither a rule nor a family."""
    known = [*families, *dict.fromkeys(families.values())]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                f"{where}: there is no rule or family {name!r}",
                do=f"did you mean {near[0]}?" if near else "list them with `fitdoctor rules`",
            )


def _table(file: Path) -> dict[str, Any]:
    try:
        data = file.read_bytes()
        if b"fitdoctor" not in data:
            return {}
        table = _parse(data.decode("utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror or error}", do="repair it, or name other paths"
        ) from error
    except ValueError as error:
        raise UsageError(f"{file} is no TOML: {error}", do="repair it") from error
    for name in ("tool", "fitdoctor", "check"):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise UsageError(f"{file}: expected a table [tool.fitdoctor.check], found {table!r}")
    return table


def _parse(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    table: dict[str, Any] = tomllib.loads(text)
    return table


def _words(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise UsageError(f"{where}: expected a list of strings, found {value!r}", do='write ["one", "two"]')
    return tuple(value)

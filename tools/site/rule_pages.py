"""One page per rule, from its docstring, and an index by family."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fitdoctor.model import FAMILIES
from fitdoctor.rules import Rule, all_rules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FAMILY_TITLES = {
    "input": "Input: batches come too late",
    "framework": "Framework: how the step is run",
    "device": "Device: what it runs on",
    "model": "Model: what is computed",
    "distributed": "Distributed: several workers",
    "convergence": "Convergence: steps that teach nothing",
}
CODE = re.compile(r"(```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def pages(corpus: Path) -> dict[str, str]:
    """Return the page of every rule and their index, by place."""
    rules = all_rules()
    made = {place(rule): page(rule, rules, corpus / rule.name) for rule in rules}
    return {**made, "rules/index.md": index(rules)}


def place(rule: Rule) -> str:
    """Return where the page of a rule stands."""
    return f"rules/{rule.name}.md"


def nav() -> list[dict[str, Any]]:
    """Return the entries of the navigation: a section per family."""
    return [
        {family.capitalize(): [{rule.name: place(rule)} for rule in rules]} for family, rules in by_family(all_rules())
    ]


def by_family(rules: Iterable[Rule]) -> Iterator[tuple[str, list[Rule]]]:
    """Yield the families that have rules, in their order, with their rules."""
    rules = list(rules)
    for family in FAMILIES:
        found = [rule for rule in rules if rule.family == family]
        if found:
            yield family, found


def index(rules: Iterable[Rule]) -> str:
    """Write the list of all causes."""
    rules = list(rules)
    lines = [
        "# What fitdoctor looks for",
        "",
        f"{len(rules)} root causes. One is reported only if it was measured to cost time on the very run; each page "
        "says how that is established and when it is not worth your time. `fitdoctor rules` lists them in a terminal, "
        "`fitdoctor explain RULE` prints a page.",
    ]
    for family, found in by_family(rules):
        lines += [
            "",
            f"## {FAMILY_TITLES.get(family, family.capitalize())}",
            "",
            "| cause | what is wrong |",
            "|---|---|",
        ]
        lines += [f"| [{rule.name}]({rule.name}.md) | {rule.title} |" for rule in found]
    return "\n".join([*lines, ""])


def page(rule: Rule, rules: Iterable[Rule], pair: Path) -> str:
    """Write the page of one rule."""
    body = rule.page.split("\n", 1)[1].strip() if "\n" in rule.page else ""
    parts = [
        f"# {rule.name}",
        f"**{rule.title}.**  \nFamily: [{rule.family}](index.md). In a terminal: `fitdoctor explain {rule.name}`.",
        linked(fenced(body), [each.name for each in rules if each.name != rule.name]),
        *in_full(pair),
    ]
    return "\n\n".join(parts) + "\n"


def fenced(text: str) -> str:
    """Put a fence around indented code."""
    lines: list[str] = []
    code: list[str] = []

    def close() -> None:
        while code and not code[-1].strip():
            code.pop()
        if code:
            commands = all(line.startswith("$ ") for line in code if line.strip())
            lines.extend([f"```{'console' if commands else 'python'}", *code, "```", ""])
            code.clear()

    for line in text.splitlines():
        starts = line.startswith("    ") and (code or not lines or not lines[-1].strip())
        if starts or (code and not line.strip()):
            code.append(line[4:])
        else:
            close()
            lines.append(line)
    close()
    return "\n".join(lines).strip()


def linked(text: str, names: Iterable[str]) -> str:
    """Make a link of every other rule that prose names."""
    known = sorted(names, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w/.\[-])({'|'.join(map(re.escape, known))})(?![\w-])")
    parts = CODE.split(text)
    for at, part in enumerate(parts):
        bare = part.strip("`")
        if at % 2 == 0:
            parts[at] = pattern.sub(r"[\1](\1.md)", part)
        elif bare in known:
            parts[at] = f"[`{bare}`]({bare}.md)"
    return "".join(parts)


def in_full(pair: Path) -> list[str]:
    """Show the pair of the corpus, if there is one: what it gained, and the difference between its scripts."""
    if not (pair / "slow.py").is_file():
        return []
    truth = tomllib.loads((pair / "truth.toml").read_text("utf-8"))
    slow, fast = ((pair / name).read_text("utf-8").splitlines() for name in ("slow.py", "fast.py"))
    difference = list(difflib.unified_diff(slow, fast, "slow.py", "fast.py", lineterm="", n=2))
    return ["## In full", measured(truth), folded("From `slow.py` to `fast.py`", difference)]


def measured(truth: dict[str, Any]) -> str:
    """Say what the fast script of a pair gained."""
    said = f"A pair of scripts with this cause is part of the corpus ({truth['backend']}, {truth['adapter']})."
    gain = truth.get("gain")
    if not gain:
        return said
    speedup = gain["speedup"]
    spread = f" ({speedup['low']:.2f} to {speedup['high']:.2f})" if gain["pairs"] > 1 else ""
    runs = f"{gain['pairs']} pairs of runs" if gain["pairs"] > 1 else "one pair of runs"
    return (
        f"{said} Made fast by hand it trained {speedup['mid']:.2f} times as fast{spread}: {runs} in turns on "
        f"{gain['machine']}, {gain['date']}. [How accurate](../accuracy.md) the diagnosis was."
    )


def folded(title: str, difference: list[str]) -> str:
    """Return a diff that opens on a click."""
    return "\n".join([f'??? example "{title}"', "", "    ```diff", *(f"    {line}" for line in difference), "    ```"])

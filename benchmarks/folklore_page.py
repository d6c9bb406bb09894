"""From what was measured about each claim to a verdict in words and docs/folklore.md: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor import units
from fitdoctor.model import Interval

NOTHING = 0.05
"""A difference that is known to be smaller than this is none worth having."""


@dataclass(frozen=True)
class Measured:
    """One case: seconds per unit of work before and after, and how many times as fast it became."""

    name: str
    unit: str
    before: float
    after: float
    ratio: Interval
    pairs: int

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Measured:
        return cls(**{**data, "ratio": Interval(**data["ratio"])})


@dataclass(frozen=True)
class Claim:
    """What is said, what was compared, and what came out of it."""

    file: str
    says: str
    compared: str
    said: tuple[str, ...]
    cases: tuple[Measured, ...]
    problem: str = ""


def outcome(ratio: Interval) -> str:
    """Say what an interval means for "this is faster"."""
    if ratio.low > 1 - NOTHING and ratio.high < 1 + NOTHING:
        return "no difference"
    if ratio.low > 1:
        return "faster"
    if ratio.high < 1:
        return "slower"
    return "not clear"


def verdict(claim: Claim) -> str:
    """Say in words what all cases of a claim mean for it."""
    if claim.problem or not claim.cases:
        return f"could not be measured: {claim.problem or 'there is no case'}"
    found = [(each, outcome(each.ratio)) for each in claim.cases]
    kinds = {kind for _, kind in found}
    if kinds == {"faster"}:
        return "true here"
    if kinds <= {"no difference", "slower"}:
        return "false here" + (": there is no difference" if kinds == {"no difference"} else told(found))
    if kinds == {"not clear"}:
        return "not clear here: the blocks differed too much from each other"
    if "faster" not in kinds:
        return "not shown here" + told(found)
    return ("partly true here" if kinds == {"faster", "not clear"} else "it depends") + told(found)


def told(found: Sequence[tuple[Measured, str]]) -> str:
    parts = []
    for each, kind in found:
        size = "" if kind in ("no difference", "not clear") else f" ({times(each.ratio)})"
        parts.append(f"{kind} for {each.name}{size}")
    return ": " + "; ".join(parts)


def times(ratio: Interval) -> str:
    return f"{ratio.mid:.2f}×, {ratio.low:.2f} to {ratio.high:.2f}"


INTRO = """\
# The folklore, measured

Written by `make bench-folklore`; do not edit. What everybody says about slow Keras trainings, each tried on a training
or two. A verdict holds for *this* machine and *these* trainings: it is worth as much as a rule of thumb, which is to
say, try yours. That is what `fitdoctor run` is for.

Measured on {date}: {machine}; {versions}; without a GPU. {load}
So both sides of a comparison run in one process, in short blocks in turns (before, after, after, before, ...), for
about {seconds:.0f} s a case after a warm-up of each. What is told is the median of the ratios of neighbouring blocks,
with its 95 % bootstrap interval. Claims run one after the other, each in a fresh process. *Faster* and *slower* mean
that the interval lies on one side of 1; *no difference*, that it lies within {nothing:.0f} % of 1; *not clear* is
everything else.

| it is said | verdict |
|---|---|
"""


def page(
    claims: Sequence[Claim], *, date: str, machine: str, versions: str, seconds: float, waiting: Sequence[float]
) -> str:
    """Write the page; `waiting` are load averages of the machine before each claim."""
    load = "Other work may have gone on on this machine."
    if waiting:
        load = (
            f"Other work went on on this machine: before each claim began, {min(waiting):.1f} to {max(waiting):.1f} "
            "threads wanted to run (load average)."
        )
    text = INTRO.format(
        date=date, machine=machine, versions=versions, load=load, seconds=seconds, nothing=100 * NOTHING
    )
    lines = text.splitlines()
    lines += [f"| [{claim.says}](#{anchor(claim)}) | {verdict(claim)} |" for claim in claims]
    for claim in claims:
        lines += ["", *section(claim)]
    return "\n".join([*lines, ""])


def anchor(claim: Claim) -> str:
    return claim.file.replace("_", "-")


def section(claim: Claim) -> list[str]:
    said = ", ".join(f"[{number}]({link})" for number, link in enumerate(claim.said, 1))
    lines = [
        f"## {claim.says} {{ #{anchor(claim)} }}",
        "",
        f"**{verdict(claim)[0].upper()}{verdict(claim)[1:]}.**",
        "",
        claim.compared + (f" Said or asked, for example, here: {said}." if said else ""),
        "",
    ]
    if claim.cases:
        lines += ["| tried on | before | after | times as fast | pairs of blocks | |", "|---|---|---|---|---|---|"]
        lines += [row(each) for each in claim.cases]
        lines.append("")
    return [*lines, f"The experiment: `benchmarks/claims/{claim.file}.py`."]


def row(case: Measured) -> str:
    ratio = f"{case.ratio.mid:.2f} ({case.ratio.low:.2f} to {case.ratio.high:.2f})"
    times = [f"{units.duration(each)} per {case.unit}" for each in (case.before, case.after)]
    return f"| {case.name} | {' | '.join(times)} | {ratio} | {case.pairs} | {outcome(case.ratio)} |"

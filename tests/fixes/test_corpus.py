"""The fixes of the corpus: what the edit makes of `slow.py` is what `fast.py` was written as by hand."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.fixes.document import opened
from fitdoctor.fixes.render import edited
from fitdoctor.model import Cost, Interval, Site
from fitdoctor.rules import all_rules

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
SEEN: dict[str, tuple[str | None, dict[str, Any]]] = {
    "costly-validation": ("model.fit(", {"validation_freq": 10}),
    "dispatch-bound": (None, {"steps_per_execution": 32}),
    "eager-replicas": (None, {}),
    "eager-step": (None, {}),
    "gil-bound-workers": ("workers=4", {"processes": 2, "own": 4}),
    "idle-workers": (None, {"loader": True, "workers": 4}),
    "oversized-shuffle": (".shuffle(", {}),
    "per-element-map": (".map(prepare", {"code": ".batch(64).map(prepare)", "maps": 1}),
    "predict-in-loop": ("model.predict(", {"alternative": "predict_on_batch"}),
    "repeated-preprocessing": (".map(load", {"after": "ParallelMap", "safety": "same"}),
    "retracing": (
        "= train_step(",
        {"cause": "value", "function": "train_step", "argument": "rate", "was": "0.0001", "now": "0.0002"},
    ),
    "serial-map": (".map(vary", {"code": ".map(vary, num_parallel_calls=tf.data.AUTOTUNE)", "safety": "may change"}),
    "starved-reads": (".map(load", {"code": ".map(load, num_parallel_calls=64, use_unbounded_threadpool=True)"}),
    "worker-churn": (None, {"loader": True, "shuffled": False}),
}
"""What the run pointed at, and what it knew."""


@pytest.mark.parametrize("name", SEEN)
def test_the_edit_is_the_one_a_person_made(name: str) -> None:
    slow, fast = (CORPUS / name / f"{which}.py" for which in ("slow", "fast"))
    text = slow.read_text("utf-8")
    words, evidence = SEEN[name]
    lines = [number for number, line in enumerate(text.splitlines(), 1) if words is not None and words in line]
    site = Site("slow.py", lines[0]) if words is not None else None
    rule = next(each for each in all_rules() if each.name == name)
    fix = rule.fix(Cost(Interval.exact(0.5), "", site, evidence=evidence), SourceTree((SourceFile("slow.py", text),)))
    assert fix is not None
    assert fix.edits
    after = edited({"slow.py": opened(text.encode())}, fix.edits)["slow.py"].data
    assert shape(after) == shape(fast.read_bytes())


def shape(text: bytes) -> str:
    """Return what a script says, in whatever order it names arguments."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords.sort(key=lambda each: each.arg or "")
    return ast.dump(tree)


@pytest.mark.parametrize("name", ["host-sync", "python-map", "slow-callback", "small-files", "rebuilt-function"])
def test_what_takes_a_person_is_left_to_one(name: str) -> None:
    text = (CORPUS / name / "slow.py").read_text("utf-8")
    rule = next(each for each in all_rules() if each.name == name)
    cost = Cost(Interval.exact(0.5), "", Site("slow.py", 1), evidence={"compile": True})
    fix = rule.fix(cost, SourceTree((SourceFile("slow.py", text),)))
    assert fix is not None
    assert fix.title
    assert fix.edits == ()

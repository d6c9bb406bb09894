"""The fixes of the corpus: what the edit makes of `slow.py` is what `fast.py` was written as by hand."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.fixes.document import opened
from fitdoctor.fixes.render import edited
from fitdoctor.model import Change, Cost, Interval, Site
from fitdoctor.rules import all_rules

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
SEEN: dict[str, tuple[str | None, dict[str, Any]]] = {
    "costly-validation": ("model.fit(", {"validation_freq": 10}),
    "dispatch-bound": (None, {"steps_per_execution": 32}),
    "eager-replicas": (None, {}),
    "eager-step": (None, {}),
    "gil-bound-workers": ("workers=4", {"processes": 2, "own": 4}),
    "idle-workers": (None, {"loader": True, "workers": 8}),
    "oversized-shuffle": (".shuffle(", {}),
    "per-element-map": (".map(prepare", {"code": ".batch(64).map(prepare)", "maps": 1}),
    "predict-in-loop": ("model.predict(", {"alternative": "predict_on_batch"}),
    "repeated-preprocessing": (".map(load", {"after": "ParallelMap", "safety": "same"}),
    "retracing": (
        "= train_step(",
        {"cause": "value", "function": "train_step", "argument": "rate", "was": "0.0001", "now": "0.0002"},
    ),
    "serial-map": (".map(vary", {"code": ".map(vary, num_parallel_calls=tf.data.AUTOTUNE)", "safety": "may change"}),
    "short-epochs": ("model.fit(", {"times": 31}),
    "slow-callback": (None, {"callback": "WeightHistograms"}),
    "starved-reads": (".map(load", {"code": ".map(load, num_parallel_calls=64, use_unbounded_threadpool=True)"}),
    "worker-churn": (None, {"loader": True, "shuffled": False}),
}
"""What the run pointed at, and what it knew."""
ALIKE: dict[str, tuple[str | None, dict[str, Any], tuple[tuple[str, str], ...]]] = {
    "dense-one-hot": (
        None,
        {},
        (
            ("keras.utils.to_categorical(words, VOCABULARY)", "words"),
            ('"categorical_crossentropy"', '"sparse_categorical_crossentropy"'),
        ),
    ),
    "frequent-checkpoint": (None, {}, (("save_freq=10", "save_freq=100"),)),
    "host-sync": (
        "float(loss)",
        {},
        (("float(loss)", "loss"), ("losses[-100:]", "[float(each) for each in losses[-100:]]")),
    ),
    "large-array-copy": (
        "model.fit(",
        {"arrays": 2, "cast": [0], "floatx": "float32"},
        (("model.fit(records,", 'model.fit(np.asarray(records, "float32"),'),),
    ),
    "missing-prefetch": (".map(read", {}, ((".map(read)", ".map(read).prefetch(tf.data.AUTOTUNE)"),)),
    "oversubscribed-threads": (None, {"fitting": 2}, (("set_num_threads(16)", "set_num_threads(2)"),)),
}
"""The same, and what the edit puts in the place of what: a person did as much in other words."""


@pytest.mark.parametrize("name", SEEN)
def test_the_edit_is_the_one_a_person_made(name: str) -> None:
    _, after = edit(name, *SEEN[name])
    assert shape(after) == shape((CORPUS / name / "fast.py").read_bytes())


@pytest.mark.parametrize("name", ALIKE)
def test_the_edit_does_what_a_person_did_in_other_words(name: str) -> None:
    words, evidence, replaced = ALIKE[name]
    before, after = edit(name, words, evidence)
    for one, other in replaced:
        assert before.count(one) == 1
        before = before.replace(one, other)
    assert after.decode() == before


def edit(name: str, words: str | None, evidence: dict[str, Any]) -> tuple[str, bytes]:
    """Return the slow script of a pair, and what its rule's edits make of it."""
    text = (CORPUS / name / "slow.py").read_text("utf-8")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if words is not None and words in line]
    site = Site("slow.py", lines[0]) if words is not None else None
    rule = next(each for each in all_rules() if each.name == name)
    change = Change("callbacks", Interval.exact(0.0)) if name == "slow-callback" else None
    cost = Cost(Interval.exact(0.5), "", site, change, evidence)
    fix = rule.fix(cost, SourceTree((SourceFile("slow.py", text),)))
    assert fix is not None
    assert fix.edits
    return text, edited({"slow.py": opened(text.encode())}, fix.edits)["slow.py"].data


def shape(text: bytes) -> str:
    """Return what a script says, in whatever order it names arguments."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords.sort(key=lambda each: each.arg or "")
    return ast.dump(tree)


@pytest.mark.parametrize("name", ["python-map", "small-files", "rebuilt-function"])
def test_what_takes_a_person_is_left_to_one(name: str) -> None:
    text = (CORPUS / name / "slow.py").read_text("utf-8")
    rule = next(each for each in all_rules() if each.name == name)
    cost = Cost(Interval.exact(0.5), "", Site("slow.py", 1), evidence={"compile": True})
    fix = rule.fix(cost, SourceTree((SourceFile("slow.py", text),)))
    assert fix is not None
    assert fix.title
    assert fix.edits == ()

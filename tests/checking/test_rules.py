"""Every rule that suspects anything: the slow script of its pair is hit where the truth is, the fast one is clean."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.checking.check import look
from fitdoctor.checking.settings import Settings
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.rules import Rule, all_rules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
ONLY_A_RUN_TELLS = {
    "costly-extras": "what an activation takes beside the layer it ends is not in the source",
    "costly-validation": "validation in every epoch is what everybody does",
    "dense-embedding-update": "how many rows of a table a batch uses is not in the source",
    "dispatch-bound": "how long a step takes is not in the source",
    "exhausted-host": "how many cores there are, and what a batch takes, is not in the source",
    "float32-compute": "what the processor multiplies in is not in the source",
    "growing-step": "what accumulates looks like anything else",
    "large-array-copy": "of what type an array is, and how large, is not in the source",
    "missing-xla": "where nothing turns it off, what XLA would gain is not in the source",
    "oversized-decode": "how large the pictures are is not in the source",
    "oversubscribed-threads": "how many cores the process may use is not in the source",
    "overwide-layer": "which of its widths a model needs is not in the source",
    "padding-waste": "how long the sequences of a padded_batch are is not in the source",
    "random-chunk-access": "how a file is stored is not in the source",
    "recompiling": "which shapes come is not in the source",
    "repeated-preprocessing": "whether what is made fits into memory is not in the source",
    "sequential-layer": "what a recurrence takes of the step is not in the source",
    "short-epochs": "what comes between epochs, and how long they are, is not in the source",
    "slow-backend": "how fast another backend is, is not in the source",
    "small-files": "how small the files are, and how far away, is not in the source",
    "starved-reads": "what a read waits for is not in the source",
    "tiny-batch": "how much of a step its samples take is not in the source",
    "wasted-epochs": "which epoch is the best is not in the source",
}


def pairs() -> dict[str, dict[str, Any]]:
    return {path.parent.name: tomllib.loads(path.read_text("utf-8")) for path in sorted(CORPUS.glob("*/truth.toml"))}


def suspected(script: Path) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for spot in look(str(script), Settings()).spots:
        found.setdefault(spot.suspicion.rule, set()).add(spot.suspicion.site.line)
    return found


@pytest.mark.parametrize("name", pairs())
def test_the_slow_script_is_hit_and_the_fast_one_is_clean(name: str) -> None:
    truth = pairs()[name]
    rule = truth["cause"]
    slow, fast = (suspected(CORPUS / name / script) for script in ("slow.py", "fast.py"))
    assert rule not in fast
    if rule in ONLY_A_RUN_TELLS:
        assert rule not in slow
    else:
        assert slow[rule] & {truth["line"], *truth.get("also", ())}


def test_what_only_a_run_tells_is_still_so() -> None:
    assert {truth["cause"] for truth in pairs().values()} >= set(ONLY_A_RUN_TELLS)


def test_the_pairs_raise_hardly_any_other_suspicion() -> None:
    others = {
        (name, script, rule)
        for name, truth in pairs().items()
        for script in ("slow.py", "fast.py")
        for rule in suspected(CORPUS / name / script)
        if rule != truth["cause"]
    }
    # Python in these maps stands for a store, and is what they share with their fast versions; threads gain nothing
    # where a loop computes, so that whoever suspects the threads suspects the loop.
    assert others <= {
        ("gil-bound-workers", "slow.py", "python-loop-preprocessing"),
        ("gil-bound-workers", "fast.py", "python-loop-preprocessing"),
        ("missing-prefetch", "slow.py", "python-map"),
        ("missing-prefetch", "fast.py", "python-map"),
        ("starved-reads", "slow.py", "python-map"),
        ("starved-reads", "fast.py", "python-map"),
        ("strict-determinism", "slow.py", "python-map"),
        ("strict-determinism", "fast.py", "python-map"),
        ("repeated-preprocessing", "slow.py", "oversized-shuffle"),
    }


def locating() -> list[Rule]:
    """Return the rules that say what their pattern may cost."""
    return [rule for rule in all_rules() if rule.suspicion]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_a_rule_without_words_for_it_suspects_nothing(rule: Rule) -> None:
    assert rule.suspicion == "" or (rule.suspicion.startswith("may ") and not rule.suspicion.endswith("."))
    text = "\n".join(path.read_text("utf-8") for path in sorted(CORPUS.glob("*/slow.py")))
    everything = SourceTree((SourceFile("all.py", text.replace("from __future__ import annotations", "")),))
    if not rule.suspicion:
        assert list(rule.locate(everything)) == []


def test_there_are_rules_that_suspect() -> None:
    assert len(locating()) >= 30


def test_a_checkpoint_that_nobody_is_given_saves_nothing(tmp_path: Path) -> None:
    made = 'keras.callbacks.ModelCheckpoint("best.keras", save_freq=10)'
    for name, line in (("dropped.py", made), ("kept.py", f"saver = {made}")):
        (tmp_path / name).write_text(f"import keras\n\n{line}\n")
    assert suspected(tmp_path / "dropped.py") == {}
    assert suspected(tmp_path / "kept.py") == {"frequent-checkpoint": {3}}


def test_the_fields_of_a_batch_are_not_its_items(tmp_path: Path) -> None:
    script = tmp_path / "data.py"
    text = (
        "import keras\nimport numpy as np\n\n\nclass Data(keras.utils.PyDataset):\n    def __getitem__(self, index):\n"
        "        return {key: np.take(value, [1, 2], axis=0) for key, value in self.data.items()}\n"
    )
    script.write_text(text)
    assert "python-loop-preprocessing" not in suspected(script)
    script.write_text(text.replace("self.data.items()", "zip(self.keys, self.rows)"))
    assert suspected(script)["python-loop-preprocessing"] == {7}


def test_a_function_that_is_handed_in_may_be_compiled(tmp_path: Path) -> None:
    script = tmp_path / "loop.py"
    text = (
        "import tensorflow as tf\n\n\ndef loop(strategy, step, data):\n"
        "    for batch in data:\n        strategy.run(step, (batch,))\n"
    )
    script.write_text(text)
    assert "eager-replicas" not in suspected(script)
    script.write_text(text.replace("(strategy, step, data)", "(strategy, data)"))
    assert suspected(script)["eager-replicas"] == {6}

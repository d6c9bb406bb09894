from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import resolve
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from tests.captures.build import Run


def names(text: str) -> list[str]:
    return [call.name for call in SourceFile("a.py", text).calls()]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import tensorflow as tf\ntf.data.Dataset.range(3)", "tensorflow.data.Dataset.range"),
        ("from tensorflow import data as tfd\ntfd.Dataset.range(3)", "tensorflow.data.Dataset.range"),
        ("import keras as k\nk.callbacks.CSVLogger('a')", "keras.callbacks.CSVLogger"),
        ("import tensorflow as tf\ntf.keras.Sequential()", "keras.Sequential"),
        ("from tensorflow.keras.callbacks import Callback as C\nC()", "keras.callbacks.Callback"),
        ("import tensorflow.compat.v2 as tf\ntf.function(f)", "tensorflow.function"),
        ("import tensorflow.data\ntensorflow.data.Options()", "tensorflow.data.Options"),
        ("model.fit(x)", ".fit"),
        ("f(x)", "f"),
    ],
)
def test_names_are_resolved_through_imports(text: str, name: str) -> None:
    assert names(text) == [name]


def chain(text: str) -> list[str]:
    file = SourceFile("a.py", text)
    fit = next(call for call in file.calls() if call.name == ".fit")
    data = fit.argument(0, "x")
    assert data is not None
    return [call.name.rpartition(".")[2] for call in file.chain(data)]


@pytest.mark.parametrize(
    "text",
    [
        "m.fit(tf.data.range(3).map(f).batch(2))",
        "d = tf.data.range(3)\nd = d.map(f)\nd = d.batch(2)\nm.fit(d)",
        "def make():\n    d = tf.data.range(3)\n    return d.map(f)\nd = make().batch(2)\nm.fit(x=d)",
        "d = tf.data.range(3).map(f).batch(2)\ndef main():\n    m.fit(d)",
        "d: object = (\n    tf.data.range(3)\n    .map(f)\n    .batch(2)\n)\nm.fit(d)",
    ],
)
def test_datasets_are_followed_through_variables(text: str) -> None:
    assert chain("import tensorflow as tf\n" + text) == ["range", "map", "batch"]


def test_a_variable_that_refers_to_itself_ends() -> None:
    assert chain("d = d\nm.fit(d)") == []
    assert chain("def f():\n    return f()\nm.fit(f())") == []


def test_a_chain_over_lines_points_at_the_line_of_the_method() -> None:
    file = SourceFile("a.py", "d = (\n  a.b()\n  .c()\n)")
    assert {call.name: call.site.line for call in file.calls()} == {".b": 2, ".c": 3}


def test_a_file_that_does_not_parse_holds_nothing() -> None:
    assert names("def (") == []


def test_redacted_sources_are_missing_evidence(tmp_path: Path) -> None:
    with pytest.raises(MissingEvidence, match="left out on request"):
        resolve(Run().source(None).capture(tmp_path)).get(SourceTree)
    found = resolve(Run().source("x = 1").capture(tmp_path)).get(SourceTree)
    assert isinstance(found.files[0].tree, ast.Module)

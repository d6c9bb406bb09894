"""Names and values are followed as far as a person reading the package would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking.conftest import Check

MAPPED = {
    "an alias": """
        import tensorflow as t
        def load(x): return t.py_function(f, [x], t.float32)
        model.fit(t.data.Dataset.range(9).map(load))
    """,
    "from ... import": """
        from tensorflow import numpy_function as nf
        from tensorflow.data import Dataset
        data = Dataset.range(9).map(lambda x: nf(f, [x], "float32"))
    """,
    "a wrapped helper": """
        import tensorflow as tf
        def call(x): return tf.py_function(f, [x], tf.float32)
        def load(x): return call(x) * 2
        data = tf.data.Dataset.range(9).map(lambda x: load(x))
    """,
    "functools.partial": """
        import functools, tensorflow as tf
        def load(size, x): return tf.py_function(f, [x], tf.float32)
        data = tf.data.Dataset.range(9).map(functools.partial(load, 3))
    """,
    "a method of self": """
        import tensorflow as tf
        class Data:
            def load(self, x):
                return tf.py_function(f, [x], tf.float32)
            def make(self):
                return tf.data.Dataset.range(9).map(self.load)
    """,
    "a method that a method of self calls": """
        import tensorflow as tf
        class Data:
            def call(self, x):
                return tf.py_function(f, [x], tf.float32)
            def load(self, x):
                return self.call(x) * 2
            def make(self):
                return tf.data.Dataset.range(9).map(self.load)
    """,
}


@pytest.mark.parametrize("script", MAPPED.values(), ids=MAPPED)
def test_functions_given_to_map(check: Check, here: Path, script: str) -> None:
    import textwrap

    (here / "train.py").write_text(textwrap.dedent(script))
    (found,) = check("--format", "json", "--select", "python-map").found
    line = textwrap.dedent(script).splitlines()[found[1] - 1]
    assert "py_function" in line or "nf(" in line


SHUFFLED = {
    "through functions": """
        import tensorflow as tf
        def load(x): return tf.io.decode_jpeg(tf.io.read_file(x))
        def make(paths): return tf.data.Dataset.from_tensor_slices(paths).map(load)
        def mix(data): return data.shuffle(1000)
        model.fit(mix(make(paths)))
    """,
    "through an attribute of self": """
        import tensorflow as tf
        def load(x): return tf.io.decode_jpeg(tf.io.read_file(x))
        class Job:
            def __init__(self, paths):
                self.data = tf.data.Dataset.from_tensor_slices(paths).map(load)
            def train(self):
                self.model.fit(self.data.shuffle(1000))
    """,
    "through a method of self": """
        import tensorflow as tf
        def load(x): return tf.io.decode_jpeg(tf.io.read_file(x))
        class Job:
            def pictures(self, paths):
                return tf.data.Dataset.from_tensor_slices(paths).map(load)
            def train(self):
                self.model.fit(self.pictures(paths).shuffle(1000))
    """,
}


@pytest.mark.parametrize("script", SHUFFLED.values(), ids=SHUFFLED)
def test_datasets_are_followed(check: Check, here: Path, script: str) -> None:
    import textwrap

    (here / "train.py").write_text(textwrap.dedent(script))
    assert len(check("--format", "json", "--select", "oversized-shuffle").found) == 1
    (here / "train.py").write_text(textwrap.dedent(script).replace(".map(load)", ".map(load).cache()"))
    assert check("--format", "json", "--select", "oversized-shuffle").found == []


def test_names_that_come_from_files_of_the_package(check: Check, here: Path) -> None:
    package = here / "package"
    (package / "sub").mkdir(parents=True)
    for name in ("__init__.py", "sub/__init__.py"):
        (package / name).write_text("")
    (package / "compat.py").write_text("import tensorflow as tf\nfrom tensorflow import keras\n")
    (package / "again.py").write_text("from .compat import (\n    tf as tensors,  # renamed\n    keras,\n)\n")
    (package / "base.py").write_text("from .again import keras\n\nclass Base(keras.utils.PyDataset):\n    pass\n")
    (package / "sub" / "train.py").write_text(
        "from ..again import tensors\n\n\ndef load(x):\n    return tensors.py_function(f, [x], 1)\n\n\n"
        "data = tensors.data.Dataset.range(3).map(load)\n"
    )
    (package / "sub" / "other.py").write_text(
        "from package.base import Base\n\n\nclass Files(Base):\n    def __getitem__(self, index):\n"
        "        return open(self.paths[index]).read()\n"
    )
    found = {each["rule"]: each["site"]["path"] for each in check("--format", "json").data["suspicions"]}
    assert found == {"python-map": "package/sub/train.py", "idle-workers": "package/sub/other.py"}


HELPERS = """\
import tensorflow as tf


def read(
    path,
):
    '''Needs no tf.py_function(...).'''
    return tf.io.decode_jpeg(tf.io.read_file(path))  # once: tf.numpy_function(...)


def load(path, size=(1, 2)):
    picture = read(path)
    return tf.numpy_function(augment, [picture], tf.uint8)
"""
TAKEN = {
    "a function": ("from helpers import load as get", "get"),
    "a function, called": ("from helpers import load", "lambda path: load(path)"),
    "a module": ("import helpers", "helpers.load"),
    "a module, called": ("import helpers as h", "lambda path: h.load(path)"),
}


@pytest.mark.parametrize(("line", "given"), TAKEN.values(), ids=TAKEN)
def test_helpers_of_other_files(check: Check, here: Path, line: str, given: str) -> None:
    (here / "helpers.py").write_text(HELPERS)
    script = f"import tensorflow as tf\n{line}\n\ndata = tf.data.Dataset.from_tensor_slices(paths).map({given})\n"
    (here / "train.py").write_text(script)
    assert check("--format", "json").found == [("python-map", 4)]
    # What reads with TensorFlow alone is as good there as here; and a helper that no dataset runs is nobody's problem.
    (here / "train.py").write_text(script.replace("load", "read"))
    assert check("--format", "json").found == []
    (here / "train.py").write_text(script.replace(".map(", ".take("))
    assert check("--format", "json").found == []


def test_modules_of_the_package_as_attributes(check: Check, here: Path) -> None:
    package = here / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "compat.py").write_text("import tensorflow as tf\n")
    (package / "helpers.py").write_text(
        "from . import compat\n\n\ndef load(x):\n    return compat.tf.py_function(f, [x], 1)\n"
    )
    (package / "train.py").write_text(
        "from package import compat\nfrom . import helpers\n\n"
        "compat.tf.config.run_functions_eagerly(True)\n"
        "data = compat.tf.data.Dataset.range(3).map(helpers.load)\n"
    )
    assert check("--format", "json").found == [("eager-step", 4), ("python-map", 5)]


def test_what_other_files_said_is_forgotten(check: Check, here: Path) -> None:
    (here / "compat.py").write_text("import tensorflow as tf\n")
    (here / "train.py").write_text("from compat import tf\ntf.config.run_functions_eagerly(True)\n")
    assert check("--format", "json").found == [("eager-step", 2)]
    (here / "compat.py").write_text("import somethingelse as tf\n")
    assert check("--format", "json").found == []


def test_modules_that_import_each_other(check: Check, here: Path) -> None:
    (here / "a.py").write_text("from b import keras\nfrom b import x\n")
    (here / "b.py").write_text("from a import keras\nfrom a import x\n")
    assert check().code == 0

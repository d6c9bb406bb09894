"""What other files of the user's own do decides whether a step may be compiled."""

from __future__ import annotations

import pytest

from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.model import Cost, Interval, Site
from fitdoctor.rules import all_rules

TRAIN = """\
import tensorflow as tf
{imports}


def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model({name}(x)))
    optimizer.apply(tape.gradient(loss, model.trainable_variables))
    return loss


for x, y in data:
    train_step(x, y)
"""
COMPUTES = "import tensorflow as tf\n\n\ndef flipped(x):\n    return tf.image.random_flip_left_right(x)\n"
DRAWS = "import numpy as np\n\n\ndef flipped(x):\n    return x if np.random.rand() < 0.5 else x[:, ::-1]\n"


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("from pictures.augment import flipped", "flipped"),
        ("from pictures.augment import flipped as turned", "turned"),
        ("from pictures import augment", "augment.flipped"),
        ("import pictures.augment as a", "a.flipped"),
        ("from .pictures.augment import flipped as turned", "turned"),
        ("from .pictures import augment as a", "a.flipped"),
    ],
)
@pytest.mark.parametrize(("text", "sure"), [(COMPUTES, True), (DRAWS, False)])
def test_a_step_that_calls_another_file(imports: str, name: str, text: str, sure: bool) -> None:
    train = SourceFile("/project/train.py", TRAIN.format(imports=imports, name=name))
    source = SourceTree((train, SourceFile("/project/pictures/augment.py", text)))
    assert compiled(source) == sure


@pytest.mark.parametrize("package", ["pictures", ".pictures"])
def test_a_step_that_calls_a_file_that_was_not_seen(package: str) -> None:
    train = SourceFile("/project/train.py", TRAIN.format(imports=f"from {package} import flipped", name="flipped"))
    assert not compiled(SourceTree((train,)))


@pytest.mark.parametrize(("text", "sure"), [(COMPUTES, True), (DRAWS, False)])
def test_a_step_that_calls_a_file_that_calls_another_by_a_name_of_its_own(text: str, sure: bool) -> None:
    between = "from pictures.augment import flipped as turned\n\n\ndef prepared(x):\n    return turned(x)\n"
    train = SourceFile("/project/train.py", TRAIN.format(imports="from pictures.work import prepared", name="prepared"))
    others = SourceFile("/project/pictures/work.py", between), SourceFile("/project/pictures/augment.py", text)
    assert compiled(SourceTree((train, *others))) == sure


@pytest.mark.parametrize(
    ("module", "sure"), [("pictures.augment", True), ("keras.ops", True), ("numpy", False), ("elsewhere", False)]
)
def test_a_step_whose_names_come_from_anywhere(module: str, sure: bool) -> None:
    train = SourceFile("/project/train.py", TRAIN.format(imports=f"from {module} import *", name="flipped"))
    source = SourceTree((train, SourceFile("/project/pictures/augment.py", COMPUTES)))
    assert compiled(source) == sure


def compiled(source: SourceTree) -> bool:
    rule = next(each for each in all_rules() if each.name == "eager-step")
    fix = rule.fix(Cost(Interval.exact(0.5), "", Site("/project/train.py", 12)), source)
    assert fix is not None
    return bool(fix.edits)

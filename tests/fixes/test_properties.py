"""Whatever the file looks like: what is applied can be undone, byte for byte, and is not applied twice."""

from __future__ import annotations

import ast
import itertools
import os
import random
import subprocess
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given, settings

from fitdoctor.edits import (
    Arguments,
    Chain,
    Decorate,
    Earlier,
    Edit,
    Hoist,
    Insert,
    Listed,
    Remove,
    Rename,
    Spot,
    Swap,
    Unwrap,
    Wrap,
)
from fitdoctor.facts import spots
from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.fixes import journal, writing
from fitdoctor.fixes.document import CannotEdit, Splice, opened
from fitdoctor.fixes.plan import FileChange, Plan
from fitdoctor.fixes.render import diff, edited

PIECES = (
    "import tensorflow as tf\n",
    "x = 'ä ö ü → 猫'\n",
    "# nothing\n",
    "\n",
    "data = data.map(f)\n",
    "data = (data\n    .map(f)  # ä\n    .batch(8))\n",
    "if x:\n\tmodel.compile('adam',  # sü\u00df\n\t\tloss='mse',\n\t)\n",
    "model.compile(\n    'adam', 'mse'\n)\n",
    "model.compile()\n",
    "def step(a, b):\n    return a @ b\n",
    "class Model:\n    @staticmethod\n    async def step(a): return a\n",
    "text = '''\n  .map(f)\n'''\n",
    "value = f'{data.map(f)}'\n",
    "data.map(lambda a: (a, 1), 2).map((f)).batch(*sizes)\n",
    "with open(x) as y: data.map(f); model.compile('adam', **more)\n",
    "for turn in range(3):\n    # often\n    made = tf.function(f)\n    print(turn)\n",
    "while x:\n\tx = y\n\tif x: break\n",
    "model.fit(x,\n          y,  # ä\n          callbacks=[one,\n                     two])\n",
    "model.fit(x, y, verbose=1); model.fit(x=(x), y=[y for y in x])\n",
    "model.fit(\n    float(x),\n    y,\n    callbacks=[],\n)\n",
    "x = a if float(b) else f(float(c))\n",
    "x = 1\ny = x  # ö\nz = y\n",
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    text = "".join(draw(st.lists(st.sampled_from(PIECES), max_size=8)))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = text.replace("\n", newline)
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    mark = draw(st.booleans())
    return (b"\xef\xbb\xbf" if mark else b"") + text.encode()


ADDING = (Chain, Decorate, Insert, Listed, Wrap)
"""Edits that take nothing away."""
SET = (Arguments, Chain, Decorate, Listed, Wrap)
"""Edits that say what is to be there: made twice they change nothing more."""


def possible(data: bytes) -> list[Edit]:
    """Return every edit that the file has a place for."""
    file = SourceFile("train.py", data.decode("utf-8", "surrogateescape"))
    found: list[Edit] = [Insert("train.py", "keras.config.set_dtype_policy('mixed_float16')")]
    for call in SourceTree((file,)).calls():
        place = spots.spot(call)
        if call.name.endswith("map"):
            found.append(Chain(place, ".cache()"))
            found.append(
                Arguments(place, (("num_parallel_calls", "tensorflow.data.AUTOTUNE"),), order=spots.ORDERS["map"])
            )
        if call.name.endswith("compile"):
            found.append(Arguments(place, (("jit_compile", "True"), ("steps_per_execution", "8")), order=spots.COMPILE))
        if call.name.endswith("fit"):
            found.append(Wrap(place, "x", 'numpy.asarray({}, "float32")', order=spots.FIT))
            found.append(Listed(place, "callbacks", "keras.callbacks.EarlyStopping()"))
            found.append(Arguments(place, (("epochs", "3"),), drop=("verbose",), order=spots.FIT))
            found.append(Rename(place, "fit_more"))
        if call.name == "float":
            found.append(Unwrap(place, "x", order=("x",)))
        following = spots.next_in_chain(call, "batch") if call.name.endswith("map") else None
        if following is not None:
            found.append(Swap(place, spots.spot(following)))
    for node in ast.walk(file.tree):
        if isinstance(node, ast.FunctionDef):
            found.append(Decorate(spots.start(file, node), "@tensorflow.function"))
        if isinstance(node, (ast.Assign, ast.Expr)):
            found += [Remove(spots.start(file, node)), Hoist(spots.start(file, node))]
        for one, other in itertools.pairwise(getattr(node, "body", []) if isinstance(node, ast.Module) else ()):
            found.append(Earlier(spots.start(file, other), spots.start(file, one)))
    return found


def taken(data: bytes, seed: int, most: int = 99) -> tuple[bytes, list[Edit]]:
    """Carry out as many of a random choice of edits as are sure."""
    choice = random.Random(seed)
    documents, done = {"train.py": opened(data)}, []
    for edit in choice.sample(every := possible(data), min(most, choice.randint(0, len(every)))):
        try:
            documents = edited(documents, [edit])
        except CannotEdit:
            continue
        done.append(edit)
    return documents["train.py"].data, done


@given(files(), st.integers(0, 99))
def test_edits_compose_and_touch_nothing_else(data: bytes, seed: int) -> None:
    after, done = taken(data, seed)
    ast.parse(after)
    assert done or after == data
    # What was added can be taken away again: every byte of the original is there, in its order.
    remaining = iter(after)
    if all(isinstance(edit, ADDING) for edit in done):
        assert all(byte in remaining for byte in data)
    assert after.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
    if b"\r\n" in data:
        assert after.count(b"\n") == after.count(b"\r\n")


@given(files(), st.integers(0, 99))
def test_what_is_there_is_not_added_again(data: bytes, seed: int) -> None:
    after, done = taken(data, seed, most=1)
    if not done or not isinstance(done[0], SET):
        return
    alike = [edit for edit in possible(data) if _kind(edit) == _kind(done[0])]
    again = [edit for edit in possible(after) if _kind(edit) == _kind(done[0])]
    assert len(again) == len(alike)
    twice = edited({"train.py": opened(after)}, [again[alike.index(done[0])]])
    assert twice["train.py"].data == after


def _kind(edit: Edit) -> tuple[object, ...]:
    given = (edit.give, edit.drop) if isinstance(edit, Arguments) else ()
    return type(edit), getattr(edit, "code", None), given


@settings(max_examples=60)
@given(st.lists(files(), min_size=1, max_size=3), st.integers(0, 99))
def test_apply_and_undo_give_every_byte_back(originals: list[bytes], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept = os.environ.get("FITDOCTOR_HOME")
        os.environ["FITDOCTOR_HOME"] = str(Path(folder) / "state")
        try:
            there_and_back(Path(folder), originals, seed)
        finally:
            os.environ.pop("FITDOCTOR_HOME")
            if kept is not None:
                os.environ["FITDOCTOR_HOME"] = kept


def there_and_back(folder: Path, originals: list[bytes], seed: int) -> None:
    changes = []
    for number, data in enumerate(originals):
        path = folder / f"file [{number}] ä.py"
        path.write_bytes(data)
        path.chmod(0o640 + number)
        after, _ = taken(data, seed)
        if after != data:
            changes.append(FileChange(str(path), data, after))
    before = {path: (path.read_bytes(), path.stat().st_mode) for path in folder.glob("*.py")}
    applied = writing.apply(Plan((), tuple(changes), str(folder / "train.py"), ""))
    assert (applied is None) == (not changes)
    for change in changes:
        assert Path(change.path).read_bytes() == change.after
        assert diff(change.before, change.after, "x.py")
    if applied is not None:
        undone = writing.undo()
        assert set(undone.restored) == {change.path for change in changes}
    assert {path: (path.read_bytes(), path.stat().st_mode) for path in folder.glob("*.py")} == before
    assert journal.newest() is None
    assert sorted(each.name for each in folder.iterdir()) == sorted(
        [*(path.name for path in before), *(["state"] if changes else [])]
    )


@given(files(), files())
def test_a_diff_is_what_patch_understands(before: bytes, after: bytes) -> None:
    told = diff(before, after, "train.py")
    assert (told == "") == (before == after)
    if told:
        assert told.startswith("--- a/train.py\n+++ b/train.py\n@@ ")
        assert told.endswith("\n")


def test_places_move_with_what_comes_before_them() -> None:
    document = opened(b"a = 1\nb = f(2)\n")
    moved = document.spliced([Splice(0, 0, b"import g\n")])
    spot = Spot("train.py", 2, 5)
    assert document.text[document.offset(spot) :].startswith(b"(2)")
    assert moved.text[moved.offset(spot) :].startswith(b"(2)")


@settings(max_examples=25)
@given(files(), st.integers(0, 99))
def test_git_applies_the_diff(data: bytes, seed: int) -> None:
    after, _ = taken(data, seed)
    if after == data:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_bytes(data)
        patch = diff(data, after, "train.py").encode("utf-8", "surrogateescape")
        words = ["git", "apply", "--whitespace=nowarn", "-"]
        done = subprocess.run(words, cwd=folder, input=patch, capture_output=True, env={**os.environ, "HOME": folder})
        assert done.returncode == 0, done.stderr
        assert path.read_bytes() == after

"""Whatever stands around it: what is mended is Python, is mended once, touches no other line, and can be undone."""

from __future__ import annotations

import ast
import os
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given, settings

from fitdoctor.checking.check import look
from fitdoctor.checking.settings import Settings
from fitdoctor.fixes import writing
from fitdoctor.fixes.suspected import Mended, mend
from fitdoctor.model import Checked

MENDED = (
    "a = tf.data.Dataset.range(9).map(lambda n: tf.cast(n, tf.float32) / 255.0).batch(3)\n",
    "b = (tf.data.Dataset.range(9)\n    .shuffle(9)\n    .map(half)\n    .batch(3, True)\n    .repeat())\n",
    "c = tf.data.Dataset.range(9)\nc = c.map(half, num_parallel_calls=tf.data.AUTOTUNE)\nc = c.batch(3)  # ä → 猫\n",
)
LEFT = (
    "d = tf.data.Dataset.range(9).map(half).batch(3)  # fitdoctor: ignore[per-element-map]\n",
    "# fitdoctor: ignore\ne = tf.data.Dataset.range(9).map(half).batch(3)\n",
    "f = tf.data.Dataset.from_tensor_slices(rows).map(half).batch(3)\n",
    "g = tf.data.Dataset.range(9).map(lambda n: (tf.cast(n, tf.float32), 1)).batch(3)\n",
    "h = tf.data.Dataset.range(9).map(half).map(half).batch(3)\n",
    "if h:\n\ti = tf.data.Dataset.range(9).map(half).batch(3)\n",
    "text = '''\ntf.data.Dataset.range(9).map(half).batch(3)\n'''\n",
    "model.compile('adam',  # sü\u00df\n    run_eagerly=True)\n",
    "\n# nothing\n",
    "x = 'ä ö ü'\n",
)
HEAD = "import tensorflow as tf\n\n\ndef half(number):\n    return tf.cast(number, tf.float32) * 0.5\n\n\n"


@st.composite
def scripts(draw: st.DrawFn) -> tuple[bytes, int]:
    """Give a file, and how many places of it can be mended."""
    pieces = draw(st.lists(st.sampled_from((*MENDED, *LEFT)), max_size=8, unique=True))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = (HEAD + "".join(pieces)).replace("\n", newline)
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    mark = b"\xef\xbb\xbf" if draw(st.booleans()) else b""
    return mark + text.encode(), sum(each in MENDED for each in pieces)


def mended(path: Path) -> Mended:
    return mend(Checked(1, look(str(path), Settings()).spots), Settings())


@settings(max_examples=60, deadline=None)
@given(scripts())
def test_mended_and_back(script: tuple[bytes, int]) -> None:
    data, count = script
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_bytes(data)
        kept = os.environ.get("FITDOCTOR_HOME")
        os.environ["FITDOCTOR_HOME"] = str(Path(folder) / "state")
        try:
            there_and_back(path, data, count)
        finally:
            os.environ.pop("FITDOCTOR_HOME")
            if kept is not None:
                os.environ["FITDOCTOR_HOME"] = kept


def there_and_back(path: Path, data: bytes, count: int) -> None:
    found = mended(path)
    assert len(found.spots) == count
    assert len(found.files) == min(count, 1)
    for change in found.files:
        ast.parse(change.after)
        assert sorted(change.after) == sorted(data), "calls change places, byte for byte"
        assert change.after.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
        for piece in LEFT:
            here = piece.rstrip("\n").encode().replace(b"\n", b"\r\n" if b"\r\n" in data else b"\n")
            assert (here in change.after) == (here in data)
        writing.write(found.files, str(path), ["per-element-map"])
        assert mended(path) == Mended()
        writing.undo()
    assert path.read_bytes() == data

"""Pipelines made up at random, as they are and as `fitdoctor check --fix` leaves them: the same batches, bit for bit.

Run as a script: `python -m tests.checking.same_results`; prints how many were compared.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from fitdoctor.checking.check import look
from fitdoctor.checking.settings import Settings
from fitdoctor.fixes.suspected import mend
from fitdoctor.model import Checked

ADDING = ("1.0 - x", "x - 127.5", "x + 0.1", "tf.add(x, 3.3)", "tf.subtract(1, x)")
SCALING = ("x / 255.0", "x * 3", "0.7 / x", "tf.divide(x, 7)", "tf.multiply(0.1, x)", "x / 7.7")
OTHERS = (
    "-x", "tf.abs(x)", "tf.square(x)", "tf.clip_by_value(x, -0.5, 90.0)", "tf.maximum(x, 0.25)", "tf.minimum(3, x)",
    "tf.cast(x, tf.float16)", "tf.cast(x, 'float64')", "tf.cast(x, tf.bfloat16)", "tf.cast(x, tf.int32)",
)  # fmt: skip
SOURCES = ("tf.data.Dataset.range(259)", "tf.data.Dataset.from_tensor_slices(np.zeros((259, 17)))")
KEEPING = ("", ".shuffle(50, seed=3)", ".repeat(2)", ".take(200)", ".cache()", ".shuffle(9)")
BATCHES = (".batch(32)", ".batch(7, drop_remainder=True)", ".batch(1)", ".batch(1000)")


def arithmetic(draw: random.Random) -> str:
    steps = [draw.choice(OTHERS) for _ in range(draw.randint(0, 3))]
    steps += [draw.choice(each) for each in (ADDING, SCALING) if draw.random() < 0.8]
    draw.shuffle(steps)
    body = "".join(f"    x = {step}\n" for step in steps)
    made = draw.choice(SOURCES) + draw.choice(KEEPING)
    tuned = draw.choice(["", ", num_parallel_calls=tf.data.AUTOTUNE"])
    pair = draw.choice(["x", "(x, first)", "{'one': x, 'two': first}"])
    return (
        "import numpy as np\nimport tensorflow as tf\n\n\ndef f(first):\n    x = tf.cast(first, tf.float32)\n"
        f"{body}    return {pair}\n\n\ndata = {made}.map(f{tuned}){draw.choice(BATCHES)}{draw.choice(KEEPING[:5])}\n"
    )


def prefetched(draw: random.Random) -> str:
    switch = draw.choice(["autotune.enabled", "experimental_optimization.apply_default_optimizations"])
    keeping = draw.choice([".shuffle(50, seed=3)", ".shuffle(40)", ".take(200)", ".cache()"])
    return (
        "import tensorflow as tf\n\n\ndef f(x):\n    x = tf.reshape(tf.cast(x, tf.float32), (1, 1))\n"
        "    return tf.image.resize(x[..., None], (3, 3)) * 0.3\n\n\n"
        f"options = tf.data.Options()\noptions.{switch} = False\n"
        f"data = tf.data.Dataset.range(259).map(f){keeping}{draw.choice(BATCHES)}.with_options(options)\n"
        "model.fit(data)\n"
    )


class Model:
    """Stands for one: nothing is trained."""

    def fit(self, data: Any) -> None:
        """Do nothing."""


def batches(source: str) -> list[bytes] | None:
    """Return two epochs of what a script's dataset gives; None where it gives an error."""
    tf.random.set_seed(11)
    drawn = np.random.default_rng(5).normal(100, 90, size=(259, 17)).astype("float32")
    kept, np.zeros = np.zeros, lambda *_, **__: drawn
    names: dict[str, Any] = {"model": Model()}
    try:
        exec(source, names)
        found = []
        for _ in range(2):
            for batch in names["data"]:
                found += [bytes(str(each.dtype), "ascii") + each.numpy().tobytes() for each in tf.nest.flatten(batch)]
    except (TypeError, ValueError, tf.errors.OpError):
        return None
    finally:
        np.zeros = kept
    return found


def main(count: int) -> int:
    """Compare until so many were mended."""
    draw, compared = random.Random(1), {arithmetic: 0, prefetched: 0}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        while min(compared.values()) < count:
            kind = min(compared, key=lambda each: compared[each])
            before = kind(draw)
            path.write_text(before)
            found = mend(Checked(1, look(str(path), Settings()).spots), Settings())
            assert found.files, f"not mended:\n{before}"
            after = found.files[0].after.decode()
            expected = batches(before)
            if expected is None:
                continue
            assert batches(after) == expected, f"not the same:\n{before}\n{after}"
            compared[kind] += 1
    print(f"the same: {sum(compared.values())}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60))

"""The code that reads the result of a conversion, ready to be copied."""

from __future__ import annotations

from pathlib import Path

_TFRECORD = """import tensorflow as tf

FEATURES = {{name: tf.io.FixedLenFeature([], tf.string) for name in ("bytes", "label", "path")}}
files = tf.data.Dataset.list_files({pattern!r}, shuffle={shuffle})
data = files.interleave(
    tf.data.TFRecordDataset, cycle_length={cycle}, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
)
data = data.batch(64).map(lambda records: tf.io.parse_example(records, FEATURES), tf.data.AUTOTUNE)
# Each element: 64 contents of files (decode them with tf.map_fn or after unbatch()), labels and paths.
"""
_GRAIN = """import glob

import grain
from fitdoctor.shard import parse

source = grain.sources.ArrayRecordDataSource(sorted(glob.glob({pattern!r})))
data = grain.MapDataset.source(source).shuffle(seed=0).map(parse)
# Each element: {{"bytes": content of a file, "label": name of its folder, "path": below the source}}
"""


def code(folder: Path, format_: str, shards: int) -> str:
    """Return what a user would type to read the shards."""
    pattern = str(folder / f"part-*.{format_}")
    if format_ == "tfrecord":
        return _TFRECORD.format(pattern=pattern, shuffle=False, cycle=max(1, min(16, shards)))
    return _GRAIN.format(pattern=pattern)

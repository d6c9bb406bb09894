"""Small files to record shards: `fitdoctor shard SRC DST`.

    source     what there is to read, and reading it
    plan       which file goes into which shard
    example    one file as a record: a tf.train.Example, made and read without TensorFlow
    records    shard files: TFRecord and ArrayRecord, written and read back
    manifest   what was planned, what is finished, and the checksum of everything
    convert    the conversion: resumable after a kill at any moment
    verify     shards compared with the manifest
    reading    the code that reads the result

`parse` turns a record back into its parts, where TensorFlow is not at hand.
"""

from fitdoctor.shard.example import parse

__all__ = ["parse"]

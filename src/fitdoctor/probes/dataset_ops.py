"""What the functions inside a tf.data pipeline do to elements, told by the kinds of ops in their graphs."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

DECODES = frozenset(
    {
        "DecodeJpeg", "DecodeImage", "DecodePng", "DecodeBmp", "DecodeGif", "DecodeAndCropJpeg", "DecodeWebP",
    }
)  # fmt: skip
PADS = frozenset({"RaggedTensorToTensor"})
"""What `TextVectorization` and `RaggedTensor.to_tensor` end in."""
READS = frozenset({"ReadFile"})
"""Ops that read a file by its name."""
_MARKS = {"decodes": DECODES, "pads": PADS, "reads": READS}


def marks(kinds: AbstractSet[str]) -> dict[str, bool]:
    """Tell whether functions that hold ops of these kinds decode pictures, pad, or read files by their names."""
    return {name: True for name, ops in _MARKS.items() if kinds & ops}

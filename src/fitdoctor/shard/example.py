"""One file as a `tf.train.Example`, in protobuf's wire format; TensorFlow is not needed.

The features, all of them byte strings: `bytes` (the file's content), `label` (the name of its folder), `path` (below
the source).  They stand in the order of their names, so that the same file always gives the same record.
"""

from __future__ import annotations

from collections.abc import Iterator

_FIELD_1 = 0x0A
"""Tag of field number 1, length-delimited: the only tag these messages have, but for the value of a map entry."""
_FIELD_2 = 0x12
FEATURES = ("bytes", "label", "path")


def example(path: str, content: bytes) -> bytes:
    """Return the record of a file."""
    values = {"bytes": content, "label": _raw(label_of(path)), "path": _raw(path)}
    return _field(b"".join(_field(_entry(name, values[name])) for name in FEATURES))


def label_of(path: str) -> str:
    """Return the name of the folder a file lies in; empty at the top."""
    return path.rpartition("/")[0].rpartition("/")[2]


def parse(record: bytes) -> dict[str, bytes]:
    """Return the features of a record that `fitdoctor shard` wrote.

    >>> parse(example("cats/1.jpg", b"picture"))
    {'bytes': b'picture', 'label': b'cats', 'path': b'cats/1.jpg'}
    """
    found: dict[str, bytes] = {}
    for _, features in _fields(record):
        for _, entry in _fields(features):
            name, feature = (value for _, value in _fields(entry))
            for _, values in _fields(feature):
                found[name.decode()] = next((value for _, value in _fields(values)), b"")
    return found


def _raw(text: str) -> bytes:
    """Return a name as the file system has it."""
    return text.encode("utf-8", "surrogateescape")


def _entry(name: str, value: bytes) -> bytes:
    """One entry of the map: its key, and as value a Feature that holds a BytesList of one."""
    return _field(name.encode()) + _field(_field(_field(value)), _FIELD_2)


def _field(content: bytes, tag: int = _FIELD_1) -> bytes:
    return bytes((tag,)) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each length-delimited field."""
    place = 0
    while place < len(message):
        tag, place = message[place], place + 1
        length = shift = 0
        while True:
            byte, place = message[place], place + 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if tag not in (_FIELD_1, _FIELD_2) or place + length > len(message):
            raise ValueError("this is no record of fitdoctor shard")
        yield tag, message[place : place + length]
        place += length

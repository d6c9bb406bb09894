"""Folders of small files, and what shards of them hold."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from fitdoctor.shard import parse, records
from fitdoctor.shard.manifest import Manifest


def fill(folder: Path, count: int, *, seed: int = 0, largest: int = 3000) -> Path:
    """Write files of random sizes and contents under three labels."""
    draw = random.Random(seed)
    for number in range(count):
        path = folder / draw.choice(["cats", "dogs", "birds"]) / f"{number:05d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draw.randbytes(draw.randint(1, largest)))
    return folder


def contents(source: Path) -> dict[bytes, bytes]:
    return {
        str(path.relative_to(source)).encode("utf-8", "surrogateescape"): path.read_bytes()
        for path in source.rglob("*")
        if path.is_file()
    }


def held(folder: Path, format_: str = "tfrecord") -> list[tuple[bytes, bytes]]:
    """Return path and content of every record, shard after shard."""
    return [
        (found["path"], found["bytes"])
        for path in sorted(folder.glob(f"part-*.{format_}"))
        for found in map(parse, records.read(path, format_))
    ]


def fingerprint(folder: Path) -> dict[str, str]:
    """Return the checksums of the shards, and of what the manifest says of every file."""
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("part-*")}
    manifest = Manifest(folder)
    files["manifest"] = str([(each.found, each.record, each.offset, each.sha256) for each in manifest.entries()])
    files["complete"] = str(manifest.about["complete"])
    manifest.close()
    return files


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return fill(tmp_path / "source", 60)

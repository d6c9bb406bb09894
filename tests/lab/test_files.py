"""The experiments about files, on real frameworks and real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Doctor

SCRIPT = Path(__file__).parent / "file_experiments.py"


def lab(doctor: Doctor, kind: str, backend: str) -> dict[str, Any]:
    own = doctor.folder / "tmp"  # what other tests leave in the machine's folder meanwhile is not this one's
    own.mkdir()
    ran = doctor.plain(str(SCRIPT), kind, backend=backend, TMPDIR=str(own))
    assert ran.code == 0, ran.err
    seen = dict(json.loads(ran.out.strip().splitlines()[-1]))
    assert seen["differs"] == []
    assert seen["files"], "the user's files are as they were"
    assert seen["opens"], "open is Python's own again"
    assert seen["left"] == []
    return seen


@pytest.mark.framework
@pytest.mark.parametrize(("kind", "backend"), [("tf.data", "tensorflow"), ("npy", "jax")])
def test_files_one_by_one_and_from_one_record_file(doctor: Doctor, kind: str, backend: str) -> None:
    seen = lab(doctor, kind, backend)
    trial = seen["trials"]["one record file"]
    assert (trial["files"], trial["file_bytes"]) == (16, 64 * 4 + 128)
    assert trial["mount"]
    assert trial["ratio"] < 0.8, "sixteen files take longer to open than one to read on"


@pytest.mark.framework
def test_a_loader_that_reads_nothing_is_said_to(doctor: Doctor) -> None:
    seen = lab(doctor, "memory", "jax")
    assert seen["trials"] == {}
    assert ["experiment: the same files from one record file", "no file is read for a batch"] in seen["gaps"]


@pytest.mark.framework
def test_random_rows_and_whole_chunks(doctor: Doctor) -> None:
    seen = lab(doctor, "hdf5", "torch")
    trial = seen["trials"]["whole chunks"]
    assert trial["chunk_rows"] == 64
    assert trial["ratio"] < 0.5, "a chunk is unpacked for every row"

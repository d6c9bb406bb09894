"""What `fitdoctor shard` wrote is read by TensorFlow and Grain, with the very code it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fitdoctor.cli.main import main
from fitdoctor.errors import EXIT_OK
from tests.conftest import Doctor
from tests.shard.conftest import contents, fill

AND_THEN = {
    "tfrecord": """
import hashlib, json
print(json.dumps({
    path.decode(): [hashlib.sha256(content).hexdigest(), label.decode()]
    for found in data.as_numpy_iterator()
    for path, content, label in zip(found["path"], found["bytes"], found["label"])
}))
""",
    "array_record": """
import hashlib, json
print(json.dumps({
    found["path"].decode(): [hashlib.sha256(found["bytes"]).hexdigest(), found["label"].decode()] for found in data
}))
""",
}


@pytest.mark.framework
@pytest.mark.parametrize("format_", AND_THEN)
def test_the_printed_code_reads_every_file(
    doctor: Doctor, tmp_path: Path, capsys: pytest.CaptureFixture[str], format_: str
) -> None:
    import hashlib

    source = fill(tmp_path / "source", 150)
    assert main(["shard", str(source), str(tmp_path / "out"), "--format", format_, "--shard-size", "40KB"]) == EXIT_OK
    script = doctor.script(capsys.readouterr().out + AND_THEN[format_], "read.py")
    ran = doctor.plain(str(script))
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == {
        path.decode(): [hashlib.sha256(data).hexdigest(), path.decode().split("/")[0]]
        for path, data in contents(source).items()
    }

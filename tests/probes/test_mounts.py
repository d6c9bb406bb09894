"""Which kind of file system a path lies on."""

from __future__ import annotations

from pathlib import Path

import pytest

from fitdoctor.probes.mounts import is_remote, kind_of

TABLE = """\
overlay / overlay rw 0 0
server:/data /mnt/data nfs4 rw 0 0
gcsfuse /mnt/data/with\\040space fuse.gcsfuse rw 0 0
/dev/sdb /mnt ext4 rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/home/x", "overlay"), ("/mnt/a", "ext4"), ("/mnt/data/1", "nfs4"), ("/mnt/data/with space/1", "fuse.gcsfuse")],
)
def test_the_innermost_mount_counts(tmp_path: Path, path: str, kind: str) -> None:
    (tmp_path / "mounts").write_text(TABLE)
    assert kind_of(path, tmp_path / "mounts") == kind


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert kind_of("/home", tmp_path / "missing") is None


def test_far_and_near() -> None:
    assert [is_remote(kind) for kind in ("nfs4", "fuse.s3fs", "ext4", "overlay", None)] == [
        True,
        True,
        False,
        False,
        False,
    ]
